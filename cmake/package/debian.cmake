# SPDX-License-Identifier: Apache-2.0
#
# Run by CPack on the files to be packed: what Debian's policy asks of a package.
set(root "${CPACK_TEMPORARY_INSTALL_DIRECTORY}")
if(EXISTS "${root}/usr/share")
	set(share "${root}/usr/share")
else()
	set(share "${root}/share")
endif()
set(documents "${share}/doc/heapgauge")

file(GLOB manuals "${share}/man/man1/*.1")
foreach(manual IN LISTS manuals)
	execute_process(COMMAND gzip -9nf "${manual}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()

if(CPACK_GENERATOR STREQUAL "DEB")
	# The whole license is in every Debian system.
	file(REMOVE "${documents}/LICENSE")
	file(WRITE "${documents}/copyright"
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: heapgauge

Files: *
Copyright: 2026 the heapgauge authors
License: Apache-2.0
 Licensed under the Apache License, Version 2.0.
 .
 On Debian systems the full text of the Apache License, version 2.0, can be found
 in /usr/share/common-licenses/Apache-2.0.
")
	string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
	file(WRITE "${documents}/changelog"
"heapgauge (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * See CHANGELOG.md in this folder.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
	execute_process(COMMAND gzip -9nf "${documents}/changelog" COMMAND_ERROR_IS_FATAL ANY)
endif()
