# SPDX-License-Identifier: Apache-2.0
#
# for_each_page_package(<page-packages.json> <function>): calls it with name, version, licence and text of each package that the page is
# made of. A macro, so that the function's PARENT_SCOPE is the caller's.
macro(for_each_page_package file call)
	if(EXISTS "${file}")
		file(READ "${file}" page_packages)
		string(JSON page_package_count LENGTH "${page_packages}")
		math(EXPR page_package_last "${page_package_count} - 1")
		foreach(i RANGE ${page_package_last})
			foreach(field name version license text)
				string(JSON page_package_${field} GET "${page_packages}" ${i} ${field})
			endforeach()
			cmake_language(CALL ${call} "${page_package_name}" "${page_package_version}" "${page_package_license}" "${page_package_text}")
		endforeach()
	endif()
endmacro()
