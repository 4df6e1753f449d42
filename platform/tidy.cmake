# SPDX-License-Identifier: Apache-2.0
# The house rules as tests. Python is looked for when they run, not here: it is
# not needed to build.
add_test(NAME tidy
  COMMAND ${CMAKE_CURRENT_LIST_DIR}/tidy_test.py ${CMAKE_SOURCE_DIR})
add_test(NAME tidy_selftest
  COMMAND ${CMAKE_CURRENT_LIST_DIR}/tidy_test.py --selftest)
set_tests_properties(tidy tidy_selftest PROPERTIES TIMEOUT 60 LABELS tidy)
