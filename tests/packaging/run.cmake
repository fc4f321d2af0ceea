# One packaging test: cmake -Dway=<install|find_package|pkg_config|add_subdirectory|large_pieces|
# library_alone> ... -P run.cmake. Every way starts from an empty directory: nothing of an earlier
# run can help.
set(prefix "${work_dir}/prefix")
set(build "${work_dir}/${way}")
set(project "${CMAKE_CURRENT_LIST_DIR}/${way}")

function(run)
  list(JOIN ARGN " " line)
  message(STATUS "${line}")
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "exit code ${result}: ${line}")
  endif()
endfunction()

if(way STREQUAL "install")
  file(REMOVE_RECURSE "${prefix}")
  run("${CMAKE_COMMAND}" --install "${weir_binary_dir}" --prefix "${prefix}")
  # The links of the installed documents lead to files that are installed, too.
  set(documents "${prefix}/share/doc/weir")
  run("${CMAKE_COMMAND}" -P "${documents}/examples/documents/check.cmake" "${documents}")
  return()
endif()

file(REMOVE_RECURSE "${build}")
file(MAKE_DIRECTORY "${build}")
if(shared)
  set(ENV{LD_LIBRARY_PATH} "${prefix}/${libdir}:$ENV{LD_LIBRARY_PATH}")
endif()

if(way STREQUAL "pkg_config")
  # As a Makefile would do it.
  set(ENV{PKG_CONFIG_PATH} "${prefix}/${libdir}/pkgconfig:$ENV{PKG_CONFIG_PATH}")
  run(sh -ec "'${compiler}' -std=c++20 '${CMAKE_CURRENT_LIST_DIR}/consumer.cpp' \
-o '${build}/consumer' \
$(pkg-config --cflags --libs weir)")
elseif(way STREQUAL "library_alone")
  # BUILD_TESTING=OFF leaves no target but the library's, also in a build that had the tests before.
  foreach(testing IN ITEMS ON OFF)
    run("${CMAKE_COMMAND}" -S "${weir_source_dir}" -B "${build}" -G "${generator}"
      "-DBUILD_TESTING=${testing}" "-DCMAKE_CXX_COMPILER=${compiler}" "-DBoost_DIR=${boost_dir}")
  endforeach()
  execute_process(COMMAND "${CMAKE_COMMAND}" --build "${build}" --target help
    OUTPUT_VARIABLE targets RESULT_VARIABLE result)
  if(NOT result EQUAL 0 OR NOT targets MATCHES "weir")
    message(FATAL_ERROR "the build names no targets: ${targets}")
  endif()
  if(targets MATCHES "unit_|example_|weir_demo|bench|test_support")
    message(FATAL_ERROR "BUILD_TESTING=OFF builds more than the library: ${targets}")
  endif()
  return()
else()
  set(options "-DCMAKE_BUILD_TYPE=Debug"
    "-DCMAKE_CXX_FLAGS_DEBUG=-O0"  # without debug information, which would take a third longer
    "-DWEIR_UNITY=OFF")  # as users build it: each source has to have all its includes
  if(way STREQUAL "large_pieces")
    set(project "${CMAKE_CURRENT_LIST_DIR}/add_subdirectory")
    set(shared ON)  # for exported_symbols.sh
    set(options "-DCMAKE_BUILD_TYPE=Release" "-DWEIR_UNITY=ON"
      "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror -Wno-mismatched-new-delete -Wno-error=restrict")
  endif()
  run("${CMAKE_COMMAND}" -S "${project}" -B "${build}" -G "${generator}"
    ${options}
    "-DCMAKE_CXX_COMPILER=${compiler}"
    "-DCMAKE_CXX_COMPILER_LAUNCHER=${launcher}"
    "-DCMAKE_PREFIX_PATH=${prefix}"
    "-DBoost_DIR=${boost_dir}"
    "-DBUILD_SHARED_LIBS=${shared}"
    "-DWEIR_SOURCE_DIR=${weir_source_dir}")
  run("${CMAKE_COMMAND}" --build "${build}" --parallel 2)
endif()
run("${build}/consumer")
if(way STREQUAL "large_pieces")
  run(sh "${CMAKE_CURRENT_LIST_DIR}/exported_symbols.sh" "${build}/weir/src/libweir.so"
    "${CMAKE_CURRENT_LIST_DIR}/exported_symbols.txt")
endif()
