# SPDX-License-Identifier: Apache-2.0
#
# Run by CPack on the files to be packed. Two builds of the same sources make the same package: the time of all files is that of the
# sources, as the caller states it (SOURCE_DATE_EPOCH) or as their last commit has it.
set(root "${CPACK_TEMPORARY_INSTALL_DIRECTORY}")
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
	execute_process(COMMAND git -C "${CPACK_HEAPGAUGE_SOURCES}" log -1 --format=%ct OUTPUT_VARIABLE committed
		OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
	if(failed) # sources without their history
		set(committed 0)
	endif()
	set(ENV{SOURCE_DATE_EPOCH} "${committed}")
endif()

if(CPACK_GENERATOR STREQUAL "DEB")
	set(share "${root}/usr/share")
	include("${CMAKE_CURRENT_LIST_DIR}/debian.cmake")
else()
	set(share "${root}/share")
	include("${CMAKE_CURRENT_LIST_DIR}/portable.cmake")
endif()

file(GLOB manuals "${share}/man/man1/*.1")
foreach(manual IN LISTS manuals)
	execute_process(COMMAND gzip -9nf "${manual}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND find "${root}" -exec touch --no-dereference --date "@$ENV{SOURCE_DATE_EPOCH}" {} +
	COMMAND_ERROR_IS_FATAL ANY)
