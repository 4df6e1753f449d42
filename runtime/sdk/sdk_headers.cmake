# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE=DIR -DOUTPUT=FILE -P sdk_headers.cmake: writes the header that
# nf_abi.h includes, with a hash of all headers that an NF or a policy may include. A file
# that would not change is left alone.
file(GLOB_RECURSE headers RELATIVE ${SOURCE} ${SOURCE}/base/*.h
  ${SOURCE}/runtime/sdk/*.h ${SOURCE}/controller/sdk/*.h)
list(FILTER headers EXCLUDE REGEX "/test_|_test\\.h$")
list(SORT headers)
set(all "")
foreach(header IN LISTS headers)
  file(SHA256 ${SOURCE}/${header} hash)
  string(APPEND all "${header} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 16 hash)
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT
  "#define SNF_SDK_HEADERS \"${hash}\"\n")
