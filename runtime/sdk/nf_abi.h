// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_ABI_H_
#define SNF_RUNTIME_SDK_NF_ABI_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

// Written by the build (sdk_headers.cmake): SNF_SDK_HEADERS, a hash of all
// headers that an NF may include.
#include "runtime/sdk/sdk_headers.h"

namespace snf {

// The facts in which an NF built as a module and the program that loads it must
// agree, as bytes that can be read from the module's file before any of its
// code runs (nf_module.h).
struct NfAbi {
  static constexpr std::array<char, 8> kMagic = {'S', 'N', 'F', '-',
                                                 'A', 'B', 'I', '\0'};
  static constexpr uint32_t kVersion = 1;  // of this struct

  std::array<char, 8> magic;
  uint32_t version;
  uint32_t reserved;
  // Names compiler, standard library and headers, and how structs are packed:
  // the alignment of 8 bytes / the size of an enum. Ends in '\0'.
  std::array<char, 240> text;
};
static_assert(sizeof(NfAbi) == 256);
static_assert(std::has_unique_object_representations_v<NfAbi>);

// A struct whose layout depends on the flags of the translation unit, such as
// -fpack-struct and -fshort-enums.
struct NfAbiProbe {
  enum Small { kSmall };
  char byte;
  uint64_t word;
  Small small;
};

#define SNF_TEXT_OF_VALUE(value) #value
#define SNF_TEXT_OF(macro) SNF_TEXT_OF_VALUE(macro)

// Returns the ABI of the translation unit that calls it.
constexpr NfAbi MakeNfAbi() {
  constexpr std::string_view kText =
#if defined(__clang__)
      "clang " SNF_TEXT_OF(__clang_major__)
#else
      "gcc " SNF_TEXT_OF(__GNUC__)
#endif
#if defined(_GLIBCXX_RELEASE)
          ", libstdc++ " SNF_TEXT_OF(_GLIBCXX_RELEASE)
#if !_GLIBCXX_USE_CXX11_ABI
              " of before C++11"
#endif
#if defined(_GLIBCXX_DEBUG)
              " in debug mode"
#endif
#elif defined(_LIBCPP_ABI_VERSION)
          ", libc++ " SNF_TEXT_OF(_LIBCPP_ABI_VERSION)
#endif
#if defined(__SANITIZE_ADDRESS__)
              ", AddressSanitizer"
#elif defined(__SANITIZE_THREAD__)
              ", ThreadSanitizer"
#endif
              ", SNF headers " SNF_SDK_HEADERS ", packing ";
  constexpr std::array<char, 3> kPacking = {
      static_cast<char>('0' + offsetof(NfAbiProbe, word)), '/',
      static_cast<char>('0' + sizeof(NfAbiProbe::Small))};
  NfAbi abi = {.magic = NfAbi::kMagic,
               .version = NfAbi::kVersion,
               .reserved = 0,
               .text = {}};
  static_assert(kText.size() + kPacking.size() <
                std::tuple_size_v<decltype(abi.text)>);
  for (size_t i = 0; i < kText.size(); ++i) abi.text[i] = kText[i];
  for (size_t i = 0; i < kPacking.size(); ++i) {
    abi.text[kText.size() + i] = kPacking[i];
  }
  return abi;
}

#undef SNF_TEXT_OF
#undef SNF_TEXT_OF_VALUE

// This symbol is in every module, and nowhere else.
#ifdef SNF_NF_MODULE
extern "C" {
[[gnu::used, gnu::visibility("default")]] inline constexpr NfAbi snf_nf_abi =
    MakeNfAbi();
}
#endif

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_ABI_H_
