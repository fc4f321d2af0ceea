# Every public header compiles on its own: one generated source per header, which includes it first
# (does it bring what it needs?) and once more (does it have its guard?). Those of the limiters
# without a store bring nothing of Asio.
set(include_dir "${PROJECT_SOURCE_DIR}/include")
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${include_dir}" "${include_dir}/weir/*.hpp")

set(sources "")
foreach(header IN LISTS headers)
  string(REGEX REPLACE "[/.]" "_" name "${header}")
  set(source "${CMAKE_CURRENT_BINARY_DIR}/header_check/${name}.cpp")
  set(text "#include <${header}>\n#include <${header}>\n")
  if(header MATCHES "/local_")
    string(APPEND text "#ifdef BOOST_ASIO_DETAIL_CONFIG_HPP\n#error it includes Asio\n#endif\n")
  endif()
  # Not written again when it has not changed, so nothing is recompiled.
  file(CONFIGURE OUTPUT "${source}" CONTENT "${text}")
  list(APPEND sources "${source}")
endforeach()

if(sources)
  add_library(weir_header_check OBJECT ${sources})
  target_link_libraries(weir_header_check PRIVATE weir::weir)
  target_compile_options(weir_header_check PRIVATE -O0 -g0)
  weir_target(weir_header_check)
endif()
