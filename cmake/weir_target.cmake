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

# weir_precompiled(<target> <library> <header> <options>...): the target, which links <library>,
# finds the header precompiled. Targets with the same library and options share one.
function(weir_precompiled target library header)
  if(NOT WEIR_PRECOMPILE)
    return()
  endif()
  string(MAKE_C_IDENTIFIER "${library}_precompiled${ARGN}" shared)
  if(NOT TARGET ${shared})
    file(WRITE "${PROJECT_BINARY_DIR}/generated/${shared}.cpp" "")
    add_library(${shared} OBJECT "${PROJECT_BINARY_DIR}/generated/${shared}.cpp")
    target_link_libraries(${shared} PRIVATE ${library})
    target_compile_options(${shared} PRIVATE ${ARGN})
    weir_target(${shared})
    target_precompile_headers(${shared} PRIVATE "${header}")
  endif()
  target_precompile_headers(${target} REUSE_FROM ${shared})
endfunction()

# weir_example_target(<target>): a program that a user could have written, with public headers only.
# It compiles by itself when a user copies it.
function(weir_example_target target)
  weir_target(${target})
  target_compile_options(${target} PRIVATE ${WEIR_TEST_FLAGS})
endfunction()
