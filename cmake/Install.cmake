# `cmake --install` installs the program, and the headers and CMake files that a plug-in is built with
# (cmake/rtfxConfig.cmake.in).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# CUDA's libraries may be in Python packages of their own, where the system does not look for them.
set(_library_folders "${RTFX_LIBTORCH}/lib")
foreach(_library ${RTFX_CUDART} ${RTFX_CUBLASLT})
  get_filename_component(_folder "${_library}" DIRECTORY)
  list(APPEND _library_folders "${_folder}")
endforeach()
list(APPEND _library_folders "\$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/rtfx")
list(REMOVE_DUPLICATES _library_folders)
set_target_properties(rtfx PROPERTIES INSTALL_RPATH "${_library_folders}")
install(FILES ${RTFX_OPENFST_LIBRARIES} DESTINATION ${CMAKE_INSTALL_LIBDIR}/rtfx)
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

# The program itself writes its manual page and its completions.
install(CODE "
  function(write_page file)
    set(target \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/\${file}\")
    get_filename_component(folder \"\${target}\" DIRECTORY)
    file(MAKE_DIRECTORY \"\${folder}\")
    message(STATUS \"Installing: \${target}\")
    execute_process(COMMAND \"$<TARGET_FILE:rtfx>\" \${ARGN} OUTPUT_FILE \"\${target}\"
      COMMAND_ERROR_IS_FATAL ANY)
  endfunction()
  write_page(${CMAKE_INSTALL_MANDIR}/man1/rtfx.1 man)
  write_page(${CMAKE_INSTALL_DATADIR}/bash-completion/completions/rtfx completion bash)
  write_page(${CMAKE_INSTALL_DATADIR}/zsh/site-functions/_rtfx completion zsh)
  write_page(${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d/rtfx.fish completion fish)
")
