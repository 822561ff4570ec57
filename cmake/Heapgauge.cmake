# SPDX-License-Identifier: Apache-2.0
#
# How a folder of src/ becomes a library, and the flags that all of our own code is compiled with.

# hg-warnings: for every file of ours, the recorder included. A compiler that is newer than ours may warn of more: for users
# that is no reason not to build.
option(HEAPGAUGE_WERROR "Warnings are errors" OFF)
set(werror "")
if(HEAPGAUGE_WERROR)
	set(werror -Werror)
endif()
add_library(hg-warnings INTERFACE)
target_compile_options(hg-warnings INTERFACE
	-Wall -Wextra ${werror}
	-Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wredundant-decls -Wnested-externs
	-Wpointer-arith -Wcast-align -Wvla -Wformat=2 -Wundef -Wwrite-strings -Wimplicit-fallthrough
	-Wno-missing-field-initializers # { 0 } and { .one = 1 } mean what they say
	-fno-common)
target_compile_definitions(hg-warnings INTERFACE _GNU_SOURCE)
target_include_directories(hg-warnings INTERFACE "${CMAKE_SOURCE_DIR}/src" "${CMAKE_SOURCE_DIR}/include")

# hg-same-anywhere: for what is installed. The folder of the sources or the build is in no file, so that all builds make the same.
add_library(hg-same-anywhere INTERFACE)
target_compile_options(hg-same-anywhere INTERFACE
	"-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=" "-ffile-prefix-map=${CMAKE_BINARY_DIR}=.")

# hg-hardened: for what is installed and linked. tools/check-fence checks it.
add_library(hg-hardened INTERFACE)
target_link_options(hg-hardened INTERFACE LINKER:-z,now LINKER:-z,relro LINKER:-z,separate-code LINKER:-z,noexecstack)

# hg-sanitize: for everything but the recorder and the programs it is tried on. The recorder runs below the
# allocator of a process that is not ours, where a sanitizer's own hooks would meet ours.
add_library(hg-sanitize INTERFACE)
if(HEAPGAUGE_SANITIZE)
	target_compile_options(hg-sanitize INTERFACE
		-fsanitize=${HEAPGAUGE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
	target_link_options(hg-sanitize INTERFACE -fsanitize=${HEAPGAUGE_SANITIZE})
	if(HEAPGAUGE_SANITIZE STREQUAL "thread" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
		target_compile_options(hg-sanitize INTERFACE -Wno-tsan) # it does not see fences; no data depends on one alone
	endif()
endif()

# heapgauge_library(<folder> [DEPS <folder>...] [LIBS <external>...] [EXCLUDE <file>...])
#
# Makes the static library hg-<folder> of all *.c in the current folder and its rooms. DEPS names other folders of src/,
# LIBS anything else that target_link_libraries takes. The sources are also kept in the global property
# HG_SOURCES_<folder>, so that the recorder can compile them a second time with flags of its own.
function(heapgauge_library folder)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPS;LIBS;EXCLUDE")
	if(arg_UNPARSED_ARGUMENTS)
		message(FATAL_ERROR "heapgauge_library(${folder}): what is '${arg_UNPARSED_ARGUMENTS}'?")
	endif()
	file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.c")
	foreach(file IN LISTS arg_EXCLUDE)
		list(REMOVE_ITEM sources "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
	endforeach()
	set_property(GLOBAL PROPERTY HG_SOURCES_${folder} "${sources}")

	add_library(hg-${folder} STATIC ${sources})
	target_link_libraries(hg-${folder} PRIVATE hg-warnings hg-same-anywhere PUBLIC hg-sanitize)
	foreach(dep IN LISTS arg_DEPS)
		target_link_libraries(hg-${folder} PUBLIC hg-${dep})
	endforeach()
	target_link_libraries(hg-${folder} PUBLIC ${arg_LIBS})
endfunction()

# heapgauge_first_line(<file> <key> <out>): the words after "key:" in the file's first five lines, as a list.
# Tests and test programs say there what they need, so that adding one is adding one file.
function(heapgauge_first_line file key out)
	file(STRINGS "${file}" lines LIMIT_COUNT 5)
	set(words "")
	foreach(line IN LISTS lines)
		if(line MATCHES "^(/\\*|//) *${key}: *(.*)$")
			string(REGEX REPLACE " *\\*/ *$" "" words "${CMAKE_MATCH_2}")
			separate_arguments(words UNIX_COMMAND "${words}")
			break()
		endif()
	endforeach()
	# A changed first line must configure again: flags live in the build file, not in the source.
	set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
	set(${out} "${words}" PARENT_SCOPE)
endfunction()
