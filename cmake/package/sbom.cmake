# SPDX-License-Identifier: Apache-2.0
#
# cmake -DVERSION=... -DPACKAGES=page-packages.json -DOUT=heapgauge.spdx.json -P sbom.cmake
#
# What the command consists of and links to, as SPDX 2.3. NOTICE says the same to people. The time is that of the sources
# (SOURCE_DATE_EPOCH), so that two builds make the same file.
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
	set(ENV{SOURCE_DATE_EPOCH} 0)
endif()
string(TIMESTAMP created "%Y-%m-%dT%H:%M:%SZ" UTC)
set(parts "")
set(relations "")

# add_part(<id> <name> <version> <licence> <how it is related to the command>)
function(add_part id name version license relation)
	string(REGEX REPLACE "[^A-Za-z0-9.-]" "-" id "SPDXRef-${id}")
	string(APPEND parts ",
    {\"SPDXID\": \"${id}\", \"name\": \"${name}\", \"versionInfo\": \"${version}\", \"licenseDeclared\": \"${license}\",
     \"licenseConcluded\": \"${license}\", \"downloadLocation\": \"NOASSERTION\", \"copyrightText\": \"NOASSERTION\", \"filesAnalyzed\": false}")
	string(APPEND relations ",
    {\"spdxElementId\": \"SPDXRef-heapgauge\", \"relationshipType\": \"${relation}\", \"relatedSpdxElement\": \"${id}\"}")
	set(parts "${parts}" PARENT_SCOPE)
	set(relations "${relations}" PARENT_SCOPE)
endfunction()

# Shared libraries have the version that is installed where it runs.
set(elfutils "LGPL-3.0-or-later OR GPL-2.0-or-later")
add_part(glibc glibc NOASSERTION LGPL-2.1-or-later DYNAMIC_LINK)
add_part(libdw libdw NOASSERTION "${elfutils}" DYNAMIC_LINK)
add_part(libelf libelf NOASSERTION "${elfutils}" DYNAMIC_LINK)
add_part(libdebuginfod libdebuginfod NOASSERTION "${elfutils}" DYNAMIC_LINK)
add_part(libiberty libiberty NOASSERTION "LGPL-2.1-or-later AND GPL-2.0-or-later WITH GCC-exception-2.0" STATIC_LINK)
add_part(libcurl libcurl NOASSERTION curl DYNAMIC_LINK)
add_part(libmicrohttpd libmicrohttpd NOASSERTION LGPL-2.1-or-later DYNAMIC_LINK)
add_part(ncurses ncurses NOASSERTION X11-distribute-modifications-variant DYNAMIC_LINK)
add_part(xxhash xxHash NOASSERTION BSD-2-Clause DYNAMIC_LINK)
add_part(zlib zlib NOASSERTION Zlib DYNAMIC_LINK)
add_part(zstd zstd NOASSERTION "BSD-3-Clause OR GPL-2.0-only" DYNAMIC_LINK)
function(add_embedded name version license text)
	add_part("npm-${name}" "${name}" "${version}" "${license}" CONTAINS)
	set(parts "${parts}" PARENT_SCOPE)
	set(relations "${relations}" PARENT_SCOPE)
endfunction()
include("${CMAKE_CURRENT_LIST_DIR}/page_packages.cmake")
for_each_page_package("${PACKAGES}" add_embedded)

file(WRITE "${OUT}" "{
  \"spdxVersion\": \"SPDX-2.3\",
  \"dataLicense\": \"CC0-1.0\",
  \"SPDXID\": \"SPDXRef-DOCUMENT\",
  \"name\": \"heapgauge-${VERSION}\",
  \"documentNamespace\": \"urn:heapgauge:${VERSION}\",
  \"creationInfo\": {\"created\": \"${created}\", \"creators\": [\"Tool: heapgauge-build-${VERSION}\"]},
  \"documentDescribes\": [\"SPDXRef-heapgauge\"],
  \"packages\": [
    {\"SPDXID\": \"SPDXRef-heapgauge\", \"name\": \"heapgauge\", \"versionInfo\": \"${VERSION}\", \"licenseDeclared\": \"Apache-2.0\",
     \"licenseConcluded\": \"Apache-2.0\", \"downloadLocation\": \"NOASSERTION\", \"copyrightText\": \"2026 the heapgauge authors\", \"filesAnalyzed\": false}${parts}
  ],
  \"relationships\": [
    {\"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relationshipType\": \"DESCRIBES\", \"relatedSpdxElement\": \"SPDXRef-heapgauge\"}${relations}
  ]
}
")
