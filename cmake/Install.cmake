# `cmake --install`: the program, and what a plug-in is built with (cmake/rtfxConfig.cmake.in).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(rtfx PROPERTIES INSTALL_RPATH ${RTFX_LIBTORCH}/lib)
install(TARGETS rtfx EXPORT rtfxTargets)
install(DIRECTORY base models algorithms DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rtfx
  FILES_MATCHING PATTERN "*.h" PATTERN decoders EXCLUDE PATTERN quickstart EXCLUDE)

set(_package ${CMAKE_INSTALL_LIBDIR}/cmake/rtfx)
install(EXPORT rtfxTargets NAMESPACE rtfx:: DESTINATION ${_package})
configure_package_config_file(cmake/rtfxConfig.cmake.in ${CMAKE_BINARY_DIR}/rtfxConfig.cmake
  INSTALL_DESTINATION ${_package} PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
# Classes may change with every version.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/rtfxConfigVersion.cmake COMPATIBILITY ExactVersion)
install(FILES ${CMAKE_BINARY_DIR}/rtfxConfig.cmake ${CMAKE_BINARY_DIR}/rtfxConfigVersion.cmake
  DESTINATION ${_package})
install(FILES LICENSE NOTICE TYPE DOC)
