# SPDX-License-Identifier: Apache-2.0
#
# Toolchain: cross-compiles for aarch64, with Debian's gcc-aarch64-linux-gnu. Libraries and headers are those of an arm64 system in
# HEAPGAUGE_ARM64_ROOT, a variable of the environment (tools/try-aarch64 makes one), and ctest runs the tests by qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(HEAPGAUGE_ARM64_ROOT "$ENV{HEAPGAUGE_ARM64_ROOT}" CACHE PATH "An arm64 system to compile for")
if(NOT HEAPGAUGE_ARM64_ROOT)
	set(HEAPGAUGE_ARM64_ROOT "${CMAKE_CURRENT_LIST_DIR}/../build/arm64-root")
endif()
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HEAPGAUGE_ARM64_ROOT)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(HEAPGAUGE_LD aarch64-linux-gnu-ld CACHE STRING "")
set(HEAPGAUGE_OBJCOPY aarch64-linux-gnu-objcopy CACHE STRING "")
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(CMAKE_SYSROOT "${HEAPGAUGE_ARM64_ROOT}")
set(CMAKE_FIND_ROOT_PATH "${HEAPGAUGE_ARM64_ROOT}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# The compiler comes with a C library of its own, which may be older than that of the system.
set(libraries "${HEAPGAUGE_ARM64_ROOT}/usr/lib/aarch64-linux-gnu")
foreach(kind EXE SHARED MODULE)
	set(CMAKE_${kind}_LINKER_FLAGS_INIT "-B${libraries} -L${libraries}")
endforeach()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L "${HEAPGAUGE_ARM64_ROOT}")
