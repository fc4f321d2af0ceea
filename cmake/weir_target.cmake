# weir_target(<target>): the language and compile options of every target of this build. They are
# private: no warning flag and no sanitizer choice reaches a user through the installed package.
function(weir_target target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  if(WEIR_WARNINGS)
    target_compile_options(${target} PRIVATE -Wall -Wextra)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # GCC 12 reports mismatched new and delete on larger coroutines without cause.
      target_compile_options(${target} PRIVATE -Wno-mismatched-new-delete)
    endif()
  endif()
  if(WEIR_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # Guesses of the optimiser; they come and go between releases, so they may warn but not fail a
      # build.
      target_compile_options(${target} PRIVATE
        -Wno-error=array-bounds -Wno-error=maybe-uninitialized -Wno-error=restrict
        -Wno-error=stringop-overflow -Wno-error=stringop-overread)
    endif()
  endif()
  if(WEIR_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  if(WEIR_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${WEIR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${WEIR_SANITIZE})
  endif()
endfunction()
