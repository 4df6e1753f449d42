# SPDX-License-Identifier: Apache-2.0
#
# Writes one source out of several tests, which then share the templates that
# they instantiate:
#   cmake -DROOT=DIR -DOUT=FILE -DSOURCES="a_test.cc;b_test.cc" -P unite_tests.cmake
# SOURCES are paths from ROOT. Tests name their helpers alike: so the unnamed
# namespace of each file gets a named one around it. Errors and debuggers still
# see the lines of each file.
set(text "")
foreach(source IN LISTS SOURCES)
  file(READ ${ROOT}/${source} one)
  string(MAKE_C_IDENTIFIER ${source} name)
  string(REPLACE "\nnamespace {\n" "\nnamespace ${name} { namespace {\n"
    one "${one}")
  string(REPLACE "\n}  // namespace\n" "\n}}  // namespace\n" one "${one}")
  string(APPEND text "#line 1 \"${source}\"\n${one}\n")
endforeach()
file(WRITE ${OUT} "${text}")
