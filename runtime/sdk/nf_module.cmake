# SPDX-License-Identifier: Apache-2.0
# NFs as modules (nf_module.h), in the tree and outside of it. Wants
# SNF_SOURCE_DIR, SNF_SANITIZER_OPTIONS, and SNF_GENERATED_DIR to write
# sdk_headers.h to. Installed headers have theirs beside them: both folders are
# the same there.

set(sdk_headers ${SNF_GENERATED_DIR}/runtime/sdk/sdk_headers.h)
if(SNF_GENERATED_DIR STREQUAL SNF_SOURCE_DIR)
  add_custom_target(snf_sdk_headers)
else()
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS
    ${SNF_SOURCE_DIR}/base/*.h ${SNF_SOURCE_DIR}/runtime/sdk/*.h
    ${SNF_SOURCE_DIR}/controller/sdk/*.h)
  add_custom_command(OUTPUT ${sdk_headers}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${SNF_SOURCE_DIR} -DOUTPUT=${sdk_headers}
            -P ${SNF_SOURCE_DIR}/runtime/sdk/sdk_headers.cmake
    DEPENDS ${headers} ${SNF_SOURCE_DIR}/runtime/sdk/sdk_headers.cmake)
  add_custom_target(snf_sdk_headers DEPENDS ${sdk_headers})
endif()

# The libraries of the program that modules may use.
set(SNF_MODULE_LIBRARIES
  snf_answers snf_base snf_ipfix snf_packet snf_policy_sdk snf_rules snf_sdk
  snf_stream snf_tunnels)
function(snf_show_to_modules target)
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET default DISABLE_PRECOMPILE_HEADERS ON)
endfunction()

# Makes the objects of a target fit for a module.
function(snf_compile_nf target)
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET default
    DISABLE_PRECOMPILE_HEADERS ON)
  target_include_directories(${target} PRIVATE
    ${SNF_SOURCE_DIR} ${SNF_GENERATED_DIR})
  target_compile_definitions(${target} PRIVATE SNF_NF_MODULE)
  target_compile_options(${target} PRIVATE
    -fno-semantic-interposition ${SNF_SANITIZER_OPTIONS})
  add_dependencies(${target} snf_sdk_headers)
endfunction()

# A module NAME.so of object files or sources. What it takes from the program
# is found when it is loaded.
function(snf_link_nf target name)
  add_library(${target} MODULE ${ARGN})
  set(exports ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/nf_module.map)
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME ${name} LINKER_LANGUAGE CXX LINK_DEPENDS ${exports})
  target_link_options(${target} PRIVATE
    LINKER:--version-script=${exports} ${SNF_SANITIZER_OPTIONS})
endfunction()

# Lets a program load modules: they find in it all of base and of the SDK.
function(snf_load_nfs target)
  set(prefix "")
  if(TARGET snf::snf_sdk)  # outside of the tree
    set(prefix snf::)
  endif()
  list(TRANSFORM SNF_MODULE_LIBRARIES
       REPLACE "(.+)" "$<TARGET_FILE:${prefix}\\1>" OUTPUT_VARIABLE archives)
  # CMake does not know that a file named in an option is to be built first.
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${archives})
  if(NOT prefix)
    add_dependencies(${target} ${SNF_MODULE_LIBRARIES})
  endif()
  list(JOIN archives "," archives)
  target_link_libraries(${target} PRIVATE
    "-Wl,--whole-archive,${archives},--no-whole-archive" ${prefix}snf_sdk)
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON)
endfunction()

# snf_add_nf(name file.cc…): an NF as name.so, for `snf replay --nf ./name.so`.
function(snf_add_nf name)
  snf_link_nf(${name} ${name} ${ARGN})
  snf_compile_nf(${name})
endfunction()

# snf_add_policy(name file.cc…): a placement policy (controller/sdk/policy.h) as
# name.so, for `snf replay --policy=./name.so`.
function(snf_add_policy name)
  snf_add_nf(${name} ${ARGN})
endfunction()

# snf_add_nf_test(name nf file_test.cc…): a test (runtime/sdk/nf_test.h) of an
# NF that snf_add_nf added; it runs in the folder of its sources. It has NFs of
# SNF or of others only as modules, which it may load. A build of SNF without
# tests has nothing to test an NF with.
function(snf_add_nf_test name nf)
  if(NOT TARGET snf::snf_nf_test)
    message(STATUS "${name} is left out: SNF was built without its tests")
    return()
  endif()
  # The files that RunEverywhere names (test_everywhere.cc).
  set(files ${CMAKE_CURRENT_BINARY_DIR}/${name}_files.cc)
  file(GENERATE OUTPUT ${files} CONTENT "extern \"C\" {
extern const char snf_program[];
const char snf_program[] = \"$<TARGET_FILE:snf::snf>\";
extern const char snf_tested_module[];
const char snf_tested_module[] = \"$<TARGET_FILE:${nf}>\";
}
")
  add_executable(${name} ${ARGN} ${files} $<TARGET_OBJECTS:${nf}>)
  snf_compile_nf(${name})
  target_link_options(${name} PRIVATE ${SNF_SANITIZER_OPTIONS})
  target_link_libraries(${name} PRIVATE
    snf::snf_nf_test GTest::gmock GTest::gtest_main)
  snf_load_nfs(${name})
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
endfunction()
