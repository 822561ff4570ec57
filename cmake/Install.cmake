# SPDX-License-Identifier: Apache-2.0
#
# bin/heapgauge, lib/heapgauge/libheapgauge.so (to be preloaded or linked) and libheapgauge.a (to be linked in), lib/libheapgauge-profile.so
# (for programs that read recordings), headers, documents, man pages and shell completion. A part that is not built yet is left out.

foreach(target heapgauge heapgauge-recorder)
	if(TARGET ${target})
		install(TARGETS ${target}
			RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
			LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/heapgauge")
	endif()
endforeach()

if(TARGET heapgauge-profile)
	install(TARGETS heapgauge-profile LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
install(FILES "${CMAKE_BINARY_DIR}/libheapgauge.a" DESTINATION "${CMAKE_INSTALL_LIBDIR}/heapgauge")

if(IS_DIRECTORY "${CMAKE_SOURCE_DIR}/include/heapgauge")
	install(DIRECTORY include/heapgauge DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
endif()

# Sources, to be compiled with the program: `path = ".../heapgauge/rust"` in Cargo.toml, heapgauge.f90 beside its own; and for `pip install
# .../heapgauge/python`.
install(DIRECTORY bindings/rust bindings/fortran bindings/python DESTINATION "${CMAKE_INSTALL_DATADIR}/heapgauge"
	PATTERN target EXCLUDE PATTERN Cargo.lock EXCLUDE PATTERN __pycache__ EXCLUDE PATTERN build EXCLUDE PATTERN "*.egg-info" EXCLUDE)

if(TARGET heapgauge)
	# What a job of CI calls: see ci/gitlab.yml and action.yml.
	install(PROGRAMS ci/judge DESTINATION "${CMAKE_INSTALL_DATADIR}/heapgauge/ci")

	# What runs the agent, and what watches it: see docs/howto/deploy.md.
	install(DIRECTORY deploy DESTINATION "${CMAKE_INSTALL_DATADIR}/heapgauge")

	# What it consists of, for machines.
	set(sbom "${CMAKE_BINARY_DIR}/heapgauge.spdx.json")
	set(sbom_script "${CMAKE_SOURCE_DIR}/cmake/package/sbom.cmake")
	add_custom_command(OUTPUT "${sbom}"
		COMMAND "${CMAKE_COMMAND}" "-DVERSION=${PROJECT_VERSION}" "-DPACKAGES=${HEAPGAUGE_PAGE_PACKAGES}" "-DOUT=${sbom}" -P "${sbom_script}"
		DEPENDS "${sbom_script}" heapgauge VERBATIM COMMENT "heapgauge.spdx.json")
	add_custom_target(heapgauge-sbom ALL DEPENDS "${sbom}")
	install(FILES "${sbom}" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
endif()

install(FILES README.md CHANGELOG.md LICENSE NOTICE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs/ DESTINATION "${CMAKE_INSTALL_DOCDIR}" FILES_MATCHING PATTERN "*.md")

if(TARGET heapgauge-generated)
	set(generated "${CMAKE_BINARY_DIR}/generated")
	install(DIRECTORY "${generated}/man1/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
	install(DIRECTORY "${generated}/bash/" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
	install(DIRECTORY "${generated}/zsh/" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
	install(DIRECTORY "${generated}/fish/" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
endif()

include(CMakePackageConfigHelpers)
set(package "${CMAKE_BINARY_DIR}/package")
file(RELATIVE_PATH from_pkgconfig "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" from_pkgconfig "${from_pkgconfig}")
set(described heapgauge)
if(TARGET heapgauge-profile)
	list(APPEND described heapgauge-profile)
endif()
foreach(name IN LISTS described)
	configure_file(cmake/package/${name}.pc.in "${package}/${name}.pc" @ONLY)
	install(FILES "${package}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()
configure_package_config_file(cmake/package/heapgaugeConfig.cmake.in "${package}/heapgaugeConfig.cmake"
	INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/heapgauge"
	PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_BINDIR)
write_basic_package_version_file("${package}/heapgaugeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${package}/heapgaugeConfig.cmake" "${package}/heapgaugeConfigVersion.cmake"
	DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/heapgauge")
