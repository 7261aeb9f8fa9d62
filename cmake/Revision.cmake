# Writes OUTPUT, a header with the revision of the sources in the working directory. A header that
# would not change is not written again.
execute_process(COMMAND git rev-parse --short=12 HEAD
  OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
execute_process(COMMAND git diff --quiet HEAD RESULT_VARIABLE dirty ERROR_QUIET OUTPUT_QUIET)
set(changes "")
if(dirty STREQUAL "0")
  set(dirty 0)
else()
  set(dirty 1)
  execute_process(COMMAND git diff HEAD -- *.h *.cpp *.cu *.cuh :!tests
    OUTPUT_VARIABLE difference ERROR_QUIET)
  string(SHA256 changes "${difference}")
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT
  "#pragma once\n#define RTFX_REVISION \"@revision@\"\n#define RTFX_DIRTY @dirty@\n#define RTFX_CHANGES \"@changes@\"\n")
