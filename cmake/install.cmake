# The library, its headers, a CMake package and a pkg-config file.
include(CMakePackageConfigHelpers)

set(weir_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/weir")

install(TARGETS weir EXPORT weirTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/weir" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.hpp")
# The headers refer to the documents, and these to the examples. CMAKE_INSTALL_DOCDIR would be the
# folder of a project that this one is a part of.
set(weir_doc_dir "${CMAKE_INSTALL_DATAROOTDIR}/doc/weir")
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION "${weir_doc_dir}")
install(DIRECTORY docs examples DESTINATION "${weir_doc_dir}")
install(EXPORT weirTargets NAMESPACE weir:: DESTINATION "${weir_cmake_dir}")

configure_package_config_file(cmake/weirConfig.cmake.in "${PROJECT_BINARY_DIR}/weirConfig.cmake"
  INSTALL_DESTINATION "${weir_cmake_dir}")
# Before 1.0 a minor version may break what was there.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/weirConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/weirConfig.cmake" "${PROJECT_BINARY_DIR}/weirConfigVersion.cmake"
  DESTINATION "${weir_cmake_dir}")

# pkg-config. The prefix is found from the file's own place, so that the tree can be moved (cmake
# --install --prefix).
set(weir_pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
if(IS_ABSOLUTE "${weir_pc_dir}")
  set(weir_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH weir_pc_up "/${weir_pc_dir}" "/")
  string(REGEX REPLACE "/$" "" weir_pc_up "${weir_pc_up}")
  set(weir_pc_prefix "\${pcfiledir}/${weir_pc_up}")
endif()
foreach(dir IN ITEMS INCLUDEDIR LIBDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(weir_pc_${dir} "${CMAKE_INSTALL_${dir}}")
  else()
    set(weir_pc_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
# A static library brings nothing along: its users must link what it uses, also without pkg-config
# --static.
if(BUILD_SHARED_LIBS)
  set(weir_pc_private "Requires.private: openssl\nLibs.private: -lboost_url")
  set(weir_pc_public "")
else()
  set(weir_pc_private "Requires: openssl")
  set(weir_pc_public " -lboost_url")
endif()
configure_file(cmake/weir.pc.in "${PROJECT_BINARY_DIR}/weir.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/weir.pc" DESTINATION "${weir_pc_dir}")
