# SPDX-License-Identifier: Apache-2.0
#
# The page of web/ becomes part of the command. It is built in a copy below the build folder, so that the source tree stays
# as it is and two builds do not meet; -DHEAPGAUGE_WEB=OFF builds without it and without node.

option(HEAPGAUGE_WEB "Build the page that `heapgauge view` shows; needs node 18 and npm" ON)
set(HEAPGAUGE_PAGE "" CACHE FILEPATH "A page that was built elsewhere, instead of building it")
set(web "${CMAKE_SOURCE_DIR}/web")
set(HEAPGAUGE_PAGE_PACKAGES "${CMAKE_BINARY_DIR}/page-packages.json") # what the page is made of, with licences

if(HEAPGAUGE_WEB AND NOT HEAPGAUGE_PAGE AND NOT EXISTS "${web}/package-lock.json")
	message(STATUS "There is no web/package-lock.json: building without the page")
	set(HEAPGAUGE_WEB OFF)
endif()

if(HEAPGAUGE_WEB AND NOT HEAPGAUGE_PAGE)
	set(without "-DHEAPGAUGE_WEB=OFF builds heapgauge without the page.")
	find_program(HEAPGAUGE_NODE node)
	find_program(HEAPGAUGE_NPM npm)
	if(NOT HEAPGAUGE_NODE OR NOT HEAPGAUGE_NPM)
		message(FATAL_ERROR "The page needs node 18 or later and npm, and there is none. ${without}")
	endif()
	execute_process(COMMAND "${HEAPGAUGE_NODE}" --version OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE)
	if(NOT version MATCHES "^v([0-9]+)" OR CMAKE_MATCH_1 LESS 18)
		message(FATAL_ERROR "The page needs node 18 or later, and ${HEAPGAUGE_NODE} is ${version}. ${without}")
	endif()
endif()

# heapgauge_build_page(<page>): how the page is made.
function(heapgauge_build_page page)
	set(copy "${CMAKE_BINARY_DIR}/web")
	set(parts build.mjs package.json package-lock.json tsconfig.json)
	list(TRANSFORM parts PREPEND "${web}/" OUTPUT_VARIABLE files)
	file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${web}/src/*")

	add_custom_command(OUTPUT "${copy}/installed"
		COMMAND "${CMAKE_COMMAND}" -E make_directory "${copy}"
		COMMAND "${CMAKE_COMMAND}" -E copy "${web}/package.json" "${web}/package-lock.json" "${copy}"
		COMMAND "${CMAKE_COMMAND}" -E chdir "${copy}" "${HEAPGAUGE_NPM}" ci --silent --no-audit --no-fund
		COMMAND "${CMAKE_COMMAND}" -E touch "${copy}/installed"
		DEPENDS "${web}/package.json" "${web}/package-lock.json"
		COMMENT "Installing what the page is made of"
		VERBATIM)
	add_custom_command(OUTPUT "${page}" "${HEAPGAUGE_PAGE_PACKAGES}"
		COMMAND "${CMAKE_COMMAND}" -E rm -rf "${copy}/src"
		COMMAND "${CMAKE_COMMAND}" -E copy_directory "${web}/src" "${copy}/src"
		COMMAND "${CMAKE_COMMAND}" -E copy ${files} "${copy}"
		COMMAND "${HEAPGAUGE_NODE}" "${copy}/build.mjs" "${page}" "${HEAPGAUGE_PAGE_PACKAGES}"
		DEPENDS "${copy}/installed" ${files} ${sources}
		COMMENT "Building the page"
		VERBATIM)
endfunction()

# heapgauge_page(<target> <source>): the source, of that target, includes the page as HEAPGAUGE_PAGE_FILE.
function(heapgauge_page target source)
	set(page "${CMAKE_BINARY_DIR}/page.html")
	if(HEAPGAUGE_PAGE)
		set(page "${HEAPGAUGE_PAGE}")
	elseif(HEAPGAUGE_WEB)
		heapgauge_build_page("${page}")
	else()
		return()
	endif()
	set_property(SOURCE "${source}" APPEND PROPERTY OBJECT_DEPENDS "${page}")
	set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_DEFINITIONS "HEAPGAUGE_PAGE_FILE=\"${page}\"")
endfunction()
