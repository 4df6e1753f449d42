// SPDX-License-Identifier: Apache-2.0
#include "nfs/esp/esp_cipher.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <span>
#include <string>

#include "base/packet/test_packets.h"

namespace snf {
namespace {

using Bytes = std::span<const std::byte>;

// draft-mcgrew-gcm-test-01 §4: the first case, with sequence numbers of 64
// bits, and the case of AES-256.
TEST(EspCipher, GivesTheVectorsOfTheWorkingGroup) {
  struct Case {
    std::string key;
    std::string associated, iv, text, sealed;
  };
  const Case cases[] = {
      {"4c80cdefbb5d10da906ac73c3613a6342e443b68", "000043218765432100000000",
       "4956ed7e3b244cfe",
       "45000048699a000080114db7c0a80102c0a801010a9bf15638d3010000010000"
       "00000000045f736970045f756470037369700963796265726369747902646b00"
       "0021000101020201",
       "fecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34"
       "cfa2436f14a3f3cf65925bf1f4a13c5d15b21e1884f5ff6247aeabb786b93bce"
       "61bc17d768fd9732459018148f6cbe722fd04796562dfdb4"},
      {"abbccddef00112233445566778899aababbccddef00112233445566778899aab"
       "11223344",
       "4a2cbfe300000002", "0102030405060708",
       "4500003069a6400080062690c0a801029389155e0a9e008b2dc57ee000000000"
       "7002400020bf0000020405b40101040201020201",
       "ff425c9b724599df7a3bcd510194e00d6a78107f1b0b1cbf06efae9d65a5d763"
       "748a637985771d347f0545659f14e99def842d8eb335f4eecfdbf831824b4c49"
       "15956c96"},
  };
  for (const Case& c : cases) {
    const std::optional<EspKey> key = EspKey::Parse(c.key);
    ASSERT_TRUE(key.has_value());
    Frame associated = Hex(c.associated);
    const Frame iv = Hex(c.iv), plain = Hex(c.text), sealed = Hex(c.sealed);
    Frame text = plain;
    std::array<std::byte, EspCipher::kTagBytes> tag;
    const auto iv8 = Bytes(iv).first<EspCipher::kIvBytes>();
    EspCipher(*key, true).Seal(iv8, associated, text, tag);
    EXPECT_EQ(text + Frame(tag.begin(), tag.end()), sealed);
    EspCipher opener(*key, false);
    Frame opened(plain.size());
    EXPECT_TRUE(opener.Open(iv8, associated, Bytes(sealed).first(plain.size()),
                            Bytes(sealed).last<16>(), opened));
    EXPECT_EQ(opened, plain);
    associated[7] ^= std::byte{1};
    EXPECT_FALSE(opener.Open(iv8, associated, Bytes(sealed).first(plain.size()),
                             Bytes(sealed).last<16>(), opened));
  }
}

TEST(EspKey, ReadsTheTwoLengthsInHexadecimal) {
  const std::string digits(80, 'a');
  for (size_t size = 0; size <= digits.size(); ++size) {
    const auto key = EspKey::Parse(digits.substr(0, size));
    EXPECT_EQ(key.has_value(), size == 40 || size == 72) << size;
  }
  EXPECT_EQ(EspKey::Parse("0x" + digits.substr(0, 40)),
            EspKey::Parse(digits.substr(0, 40)));
  EXPECT_FALSE(EspKey::Parse(digits.substr(0, 39) + "g").has_value());
  EXPECT_FALSE(EspKey::Parse("-1" + digits.substr(0, 38)).has_value());
  EXPECT_FALSE(EspKey::Parse("+" + digits.substr(0, 39)).has_value());
}

}  // namespace
}  // namespace snf
