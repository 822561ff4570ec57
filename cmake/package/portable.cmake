# SPDX-License-Identifier: Apache-2.0
#
# The archive must run where the libraries of the command are not installed, or are others: puts them beside the recorder, each with the
# licence that its Debian package states, and takes the command and the reader library that look for them there. Included by stage.cmake.
set(libraries "${root}/lib/heapgauge")
set(licenses "${share}/doc/heapgauge/licenses")

# `cmake --install` removes the path to the libraries; what is in the build folder has it. What the reader needs, the command needs too.
file(COPY "${CPACK_HEAPGAUGE_COMMAND}" DESTINATION "${root}/bin")
execute_process(COMMAND "${CPACK_HEAPGAUGE_STRIP}" "${root}/bin/heapgauge" COMMAND_ERROR_IS_FATAL ANY)
cmake_path(GET CPACK_HEAPGAUGE_LIBRARY FILENAME reader)
file(COPY "${CPACK_HEAPGAUGE_LIBRARY}" DESTINATION "${root}/lib")
execute_process(COMMAND "${CPACK_HEAPGAUGE_STRIP}" "${root}/lib/${reader}" COMMAND_ERROR_IS_FATAL ANY)

# The C library is the machine's: the recorder runs in programs that have loaded it already.
set(CMAKE_OBJDUMP "${CPACK_HEAPGAUGE_OBJDUMP}")
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES "${CPACK_HEAPGAUGE_COMMAND}" LIBRARIES "${CPACK_HEAPGAUGE_MICROHTTPD}"
	PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread)\\.so"
	RESOLVED_DEPENDENCIES_VAR needed)
file(REAL_PATH "${CPACK_HEAPGAUGE_MICROHTTPD}" microhttpd)
string(REGEX REPLACE "(\\.so\\.[0-9]+).*" "\\1" microhttpd "${microhttpd}")
file(MAKE_DIRECTORY "${licenses}")
foreach(library IN LISTS needed microhttpd)
	cmake_path(GET library FILENAME name)
	file(REAL_PATH "${library}" file)
	file(COPY_FILE "${file}" "${libraries}/${name}")
	execute_process(COMMAND dpkg-query --search "${file}" OUTPUT_VARIABLE owner OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed
		ERROR_QUIET)
	if(failed) # dpkg may know it by the path from before /lib became a link
		string(REGEX REPLACE "^/usr" "" file "${file}")
		execute_process(COMMAND dpkg-query --search "${file}" OUTPUT_VARIABLE owner OUTPUT_STRIP_TRAILING_WHITESPACE
			COMMAND_ERROR_IS_FATAL ANY)
	endif()
	string(REGEX REPLACE ":.*" "" owner "${owner}")
	file(COPY_FILE "/usr/share/doc/${owner}/copyright" "${licenses}/${name}.txt")
endforeach()
