# SPDX-License-Identifier: Apache-2.0
#
# What Debian's policy asks of a package beyond our own files; included by stage.cmake.
set(documents "${share}/doc/heapgauge")
# dpkg-shlibdeps looks for the libraries of this architecture.
if(CPACK_DEBIAN_PACKAGE_ARCHITECTURE)
	set(ENV{DEB_HOST_ARCH} "${CPACK_DEBIAN_PACKAGE_ARCHITECTURE}")
endif()

# The whole license is in every Debian system.
file(REMOVE "${documents}/LICENSE")
# What is embedded: the page's packages, each with its own text.
set(embedded "")
function(add_embedded name version license text)
	string(REGEX MATCH "Copyright[^\n]*" holder "${text}")
	string(REGEX REPLACE "\n[ \t]*\n" "\n.\n" text "${text}")
	string(REPLACE "\n" "\n " text "${text}")
	string(APPEND embedded "
Files: web/node_modules/${name}/*
Copyright: ${holder}
License: ${license}-of-${name}
 ${text}
")
	set(embedded "${embedded}" PARENT_SCOPE)
endfunction()
include("${CMAKE_CURRENT_LIST_DIR}/page_packages.cmake")
for_each_page_package("${CPACK_HEAPGAUGE_PAGE_PACKAGES}" add_embedded)
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
${embedded}
Files: libiberty/*
Copyright: 1986-2023 Free Software Foundation, Inc.
License: GPL-2+-with-linking-exception
 The demanglers of libiberty are linked into the command. They are under the GNU
 General Public License, version 2 or later, with an exception that permits
 linking them into programs under any license.
 .
 On Debian systems the full text of the GNU General Public License, version 2, can
 be found in /usr/share/common-licenses/GPL-2.
")
file(WRITE "${share}/lintian/overrides/heapgauge"
"# CPack calls ldconfig for any shared library; the recorder is loaded by its path, and the call changes nothing.
heapgauge: maintscript-calls-ldconfig *
# The .pc file finds the recorder from where it lies, and both are in /usr/lib, where the documents say they are.
heapgauge: pkg-config-unavailable-for-cross-compilation *
# One package: who reads recordings by the library has the command that makes them.
heapgauge: package-name-doesnt-match-sonames *
heapgauge: link-to-shared-library-in-wrong-package *
# The module of Python has the name of the package.
heapgauge: repeated-path-segment heapgauge *
# Reads the lists of installed files, to say which package brings the names that are missing; without them it says less.
heapgauge: uses-dpkg-database-directly *
")
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE "${documents}/changelog"
"heapgauge (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * See CHANGELOG.md in this folder.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
execute_process(COMMAND gzip -9nf "${documents}/changelog" COMMAND_ERROR_IS_FATAL ANY)
