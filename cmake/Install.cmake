# SPDX-License-Identifier: Apache-2.0
#
# bin/heapgauge, lib/libheapgauge.so, headers and documents. A part that is not built yet is left out.

foreach(target heapgauge heapgauge-recorder)
	if(TARGET ${target})
		install(TARGETS ${target}
			RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
			LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
	endif()
endforeach()

if(IS_DIRECTORY "${CMAKE_SOURCE_DIR}/include/heapgauge")
	install(DIRECTORY include/heapgauge DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
endif()

install(FILES README.md CHANGELOG.md LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs/ DESTINATION "${CMAKE_INSTALL_DOCDIR}" FILES_MATCHING PATTERN "*.md")
