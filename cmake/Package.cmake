# SPDX-License-Identifier: Apache-2.0
#
# Packages: `cpack --config build/release/CPackConfig.cmake` makes a .deb and a .tar.gz, which carries the libraries that the
# command needs. cmake/package/stage.cmake is run while packing, and adds what is in no installation: those, and what Debian wants.

set(CPACK_GENERATOR "DEB;TGZ")
set(CPACK_PACKAGE_NAME heapgauge)
set(CPACK_PACKAGE_VENDOR heapgauge)
set(CPACK_PACKAGE_CONTACT "heapgauge maintainers <maintainers@users.noreply.a-seed-efa5ee98.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "exact heap profiler for Linux programs")
set(CPACK_PACKAGE_DESCRIPTION "Records every allocation of a program and its descendants with
the full call stack, and answers where the memory went: at the
peak, at the end, over time. The recording survives SIGKILL and the
OOM killer. For C, C++, Rust and all else that calls malloc.")
set(CPACK_PACKAGE_FILE_NAME "heapgauge-${PROJECT_VERSION}-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_LICENSE "${CMAKE_SOURCE_DIR}/LICENSE")
set(CPACK_HEAPGAUGE_PAGE_PACKAGES "${HEAPGAUGE_PAGE_PACKAGES}")
set(CPACK_HEAPGAUGE_SOURCES "${CMAKE_SOURCE_DIR}")
set(CPACK_HEAPGAUGE_COMMAND "${CMAKE_BINARY_DIR}/heapgauge")
set(CPACK_HEAPGAUGE_LIBRARY "${CMAKE_BINARY_DIR}/libheapgauge-profile.so.0.1")
set(CPACK_HEAPGAUGE_STRIP "${CMAKE_STRIP}")
set(CPACK_HEAPGAUGE_OBJDUMP "${CMAKE_OBJDUMP}")
set(CPACK_HEAPGAUGE_MICROHTTPD "${HEAPGAUGE_MICROHTTPD}")
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_SOURCE_DIR}/cmake/package/stage.cmake")

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64") # else CPack takes the machine's
	set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
endif()
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# `view` loads it when it begins (src/serve/http.h), so dpkg-shlibdeps does not see it. Debian 13 has renamed it.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libmicrohttpd12t64 | libmicrohttpd12")
# The agent loads libcurl when it pushes (src/agent/push/http_client.h).
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "less, libcurl4t64 | libcurl4")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${CMAKE_SOURCE_DIR}/cmake/package/triggers")
include(CPack)
