// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf_module.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/sdk/nf_module_file.h"
#include "runtime/sdk/nf_registry.h"

namespace snf {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The modules that replace this NF have one of the same name.
class ModuleNf final : public NetworkFunction {
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
  const Slot<uint64_t> packets_ = declare<uint64_t>("packets");
};
SNF_REGISTER_NF(ModuleNf, "linked", "in the program itself");

std::string ModuleOf(const std::string& name) {
  return std::string(SNF_TEST_MODULES) + "/module_" + name + ".so";
}

std::vector<std::byte> BytesOf(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

// Returns the place of `text`, which must be there.
size_t Find(const std::vector<std::byte>& bytes, std::string_view text) {
  const auto found = std::ranges::search(
      bytes, text, {}, {}, [](char c) { return static_cast<std::byte>(c); });
  EXPECT_FALSE(found.empty()) << text;
  return static_cast<size_t>(found.begin() - bytes.begin());
}

std::string_view MagicText() {
  return {NfAbi::kMagic.data(), NfAbi::kMagic.size()};
}

std::string ErrorOf(const std::vector<std::byte>& bytes) {
  return std::string(ReadNfAbi(bytes).status().message());
}

template <typename T>
std::vector<std::byte> With(std::vector<std::byte> bytes, size_t offset,
                            T value) {
  std::memcpy(&bytes.at(offset), &value, sizeof value);
  return bytes;
}

// A file that is removed at the end of the test.
class Scratch {
 public:
  explicit Scratch(const std::vector<std::byte>& bytes)
      : path_(fs::temp_directory_path() /
              ("snf_module_" + std::to_string(getpid()) + ".so")) {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  ~Scratch() { fs::remove(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string LoadError(const std::string& file) {
  return std::string(LoadNfModule(file).status().message());
}

TEST(NfModuleFile, SaysWhatItWasBuiltFor) {
  const auto abi = ReadNfAbi(BytesOf(ModuleOf("plain")));
  ASSERT_TRUE(abi.ok()) << abi.status().message();
  EXPECT_TRUE(CheckNfAbi(*abi, MakeNfAbi()).ok());
  EXPECT_THAT(std::string(abi->text.data()), HasSubstr("SNF headers "));
}

TEST(NfModuleFile, IsRefusedWhereItIsNoModuleOfThisMachine) {
  EXPECT_EQ(ErrorOf({}), "is not an ELF file");
  EXPECT_EQ(ErrorOf(std::vector<std::byte>(5'000)), "is not an ELF file");
  const std::vector<std::byte> good = BytesOf(ModuleOf("plain"));
  EXPECT_THAT(ErrorOf(With(good, EI_CLASS, uint8_t{ELFCLASS32})),
              HasSubstr("32-bit"));
  EXPECT_THAT(ErrorOf(With(good, EI_DATA, uint8_t{ELFDATA2MSB})),
              HasSubstr("another kind of machine"));
  EXPECT_THAT(
      ErrorOf(With(good, offsetof(Elf64_Ehdr, e_machine), uint16_t{EM_RISCV})),
      HasSubstr("another kind of machine: ELF number 243"));
  EXPECT_EQ(
      ErrorOf(With(good, offsetof(Elf64_Ehdr, e_type), uint16_t{ET_EXEC})),
      "is not a shared object");
  EXPECT_THAT(ErrorOf(BytesOf("/proc/self/exe")),
              HasSubstr("no symbol snf_nf_abi"));
  EXPECT_THAT(ErrorOf(With(good, Find(good, MagicText()), 'X')),
              HasSubstr("snf_nf_abi that is something else"));
}

TEST(NfModuleFile, IsRefusedWhereItHasTwoOfTheSymbol) {
  std::vector<std::byte> bytes = BytesOf(ModuleOf("none"));
  ASSERT_TRUE(ReadNfAbi(bytes).ok());
  const std::string_view name = "snf_nf_abi";
  std::memcpy(&bytes[Find(bytes, "_ZTSsecond")], name.data(), name.size());
  EXPECT_EQ(ErrorOf(bytes), "has two symbols snf_nf_abi");
}

TEST(NfModuleFile, IsRefusedWhereverItIsCutOff) {
  const std::vector<std::byte> good = BytesOf(ModuleOf("plain"));
  // The section headers are last.
  for (size_t size = 0; size < good.size(); size += 1 + size / 64) {
    EXPECT_FALSE(ReadNfAbi(std::span(good).first(size)).ok()) << size;
  }
}

// Writes `value` at every place of the headers in turn.
template <typename T>
void TryInHeaders(std::vector<std::byte> bytes, T value) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const size_t end = header.e_shoff + header.e_shnum * sizeof(Elf64_Shdr);
  size_t refused = 0;
  for (size_t at = 0; at < end; at += sizeof value) {
    if (at == sizeof header) at = header.e_shoff;
    T before;
    std::memcpy(&before, &bytes[at], sizeof before);
    std::memcpy(&bytes[at], &value, sizeof value);
    if (!ReadNfAbi(bytes).ok()) ++refused;
    std::memcpy(&bytes[at], &before, sizeof before);
  }
  EXPECT_GT(refused, 5u);
  EXPECT_TRUE(ReadNfAbi(bytes).ok());
}

TEST(NfModuleFile, MayHaveAnyBytes) {
  const std::vector<std::byte> good = BytesOf(ModuleOf("plain"));
  for (const int value : {0, 0x7f, 0x80, 0xff}) {
    TryInHeaders(good, static_cast<uint8_t>(value));
  }
  for (const uint64_t less : {1, 64, 256, 1'000}) {
    TryInHeaders(good, uint64_t{0} - less);
  }
}

TEST(NfModule, IsLoadedOnceAndKnownByName) {
  const auto nf = LoadNfModule(ModuleOf("plain"));
  ASSERT_TRUE(nf.ok()) << nf.status().message();
  EXPECT_EQ((*nf)->name, "module_plain");
  EXPECT_EQ(FindNf("module_plain"), *nf);
  EXPECT_EQ((*nf)->create()->schema().record_bytes(), 16u);
  EXPECT_STREQ(std::getenv("SNF_TEST_MODULE_RAN"), "yes");

  const fs::path link = fs::temp_directory_path() /
                        ("snf_link_" + std::to_string(getpid()) + ".so");
  fs::create_symlink(ModuleOf("plain"), link);
  EXPECT_EQ(LoadNfModule(link).value_or(nullptr), *nf);
  fs::remove(link);
}

TEST(NfModule, DoesNotRunWhereItWasBuiltForSomethingElse) {
  const std::vector<std::byte> good = BytesOf(ModuleOf("plain"));
  const size_t abi = Find(good, MagicText());
  unsetenv("SNF_TEST_MODULE_RAN");
  {
    const Scratch file(
        With(good, abi + offsetof(NfAbi, version), uint32_t{77}));
    EXPECT_EQ(LoadError(file.path()),
              file.path() +
                  ": was built for version 77 of the NF ABI, and "
                  "this program has 1: rebuild it");
  }
  {
    const Scratch file(With(good, abi + offsetof(NfAbi, text), 'X'));
    EXPECT_THAT(LoadError(file.path()),
                AllOf(HasSubstr("built for \"X"), HasSubstr("program is \"")));
  }
  EXPECT_EQ(std::getenv("SNF_TEST_MODULE_RAN"), nullptr);
  ASSERT_TRUE(LoadNfModule(ModuleOf("plain")).ok());
  const Scratch file(good);
  EXPECT_THAT(LoadError(file.path()),
              HasSubstr("has an NF \"module_plain\", as "));
  EXPECT_STREQ(std::getenv("SNF_TEST_MODULE_RAN"), "yes");
}

TEST(NfModule, DoesNotRunWhereItLaysOutStructsOtherwise) {
  EXPECT_THAT(
      LoadError(ModuleOf("packed")),
      AllOf(HasSubstr("was built for \"gcc"), HasSubstr("packing 4/4"),
            HasSubstr("this program is \"gcc"), HasSubstr("packing 8/4")));
}

TEST(NfModule, MayHaveSeveralNfs) {
  const auto nf = LoadNfModule(ModuleOf("several"));
  ASSERT_TRUE(nf.ok()) << nf.status().message();
  EXPECT_EQ((*nf)->name, "module_several");
  EXPECT_NE(FindNf("module_other"), nullptr);

  const fs::path link = fs::temp_directory_path() /
                        ("snf_other_" + std::to_string(getpid()) + ".so");
  fs::create_symlink(ModuleOf("several"), link);
  EXPECT_THAT(LoadError(link),
              HasSubstr("has several NFs, none of them of the file's name: "
                        "module_several, module_other"));
  fs::remove(link);
}

// Another file may take the name between the check and the loading.
TEST(NfModule, IsLoadedFromTheFileThatWasRead) {
  const std::vector<std::byte> good = BytesOf(ModuleOf("several"));
  const Scratch file(good);
  const std::string other = file.path() + ".new";
  std::ofstream(other) << "no module";
  CaughtNfs caught;
  absl::StatusOr<NfModuleFile> opened = NfModuleFile::Open(file.path());
  ASSERT_TRUE(opened.ok());
  fs::rename(other, file.path());
  const auto bytes = opened->Read();
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, good);
  const absl::Status loaded = opened->Load();
  EXPECT_TRUE(loaded.ok()) << loaded;
  EXPECT_EQ(caught.nfs().size(), 2u);
}

TEST(NfModule, TakesThePlaceOfALinkedOneThatKeepsTheSame) {
  const NfRegistration* const linked = FindNf("linked");
  EXPECT_THAT(
      LoadError(ModuleOf("other_state")),
      AllOf(
          HasSubstr(
              "has an NF \"linked\" whose state differs from that of the NF in "
              "this program, from "),
          HasSubstr("nf_module_test.cc: its schema"),
          HasSubstr("its schema is ")));
  EXPECT_EQ(FindNf("linked"), linked);
  const auto nf = LoadNfModule(ModuleOf("linked"));
  ASSERT_TRUE(nf.ok()) << nf.status().message();
  EXPECT_NE(*nf, linked);
  EXPECT_EQ(FindNf("linked"), *nf);
  EXPECT_EQ(std::ranges::count(ListNfs(), "linked", &NfRegistration::name), 1);
  EXPECT_EQ((*nf)->example()->schema().hash(),
            linked->example()->schema().hash());
}

TEST(NfModule, IsNamedByItsFileOrThatOfWhichItIsACopy) {
  const auto nf = LoadNfModule(ModuleOf("several"));
  ASSERT_TRUE(nf.ok());
  EXPECT_EQ(FileOfNf(**nf), fs::canonical(ModuleOf("several")));
  // The file's name is the other one's.
  EXPECT_EQ(FileOfNf(*FindNf("module_other")), "");
  const auto plain = LoadNfModule(ModuleOf("plain"));
  ASSERT_TRUE(plain.ok());
  set_nf_module_origin(ModuleOf("plain"), "/nfs/plain.so");
  EXPECT_EQ(FileOfNf(**plain), "/nfs/plain.so");
  const NfRegistration other = **plain;
  EXPECT_EQ(FileOfNf(other), "");
}

TEST(NfModule, StandsInATextForItsNf) {
  const auto text = [](std::string_view before) {
    return WithNfFiles(before, {{"nf", "/a/nf.so"}, {"odd", "/a b/odd.so"}});
  };
  EXPECT_EQ(text("nf"), "/a/nf.so");
  EXPECT_EQ(text(" nf:key=nf,nf=nf"), " /a/nf.so:key=nf,nf=nf");
  EXPECT_EQ(text("[connections=3] a(nf=nf,b=\") | nf\\\"nf\") | nf(b=c)"),
            "[connections=3] a(nf=nf,b=\") | nf\\\"nf\") | /a/nf.so(b=c)");
  EXPECT_EQ(text("a | {nf: nf, b: nf | c, *: nf2} | nf"),
            "a | {nf: /a/nf.so, b: /a/nf.so | c, *: nf2} | /a/nf.so");
  EXPECT_EQ(text("odd | b"), "odd | b");
  EXPECT_EQ(text("a(b=\"c\\"), "a(b=\"c\\");
}

TEST(NfModule, FailsToLoadNamingTheFile) {
  EXPECT_EQ(LoadError("./nonesuch.so"),
            "./nonesuch.so: No such file or directory");
  EXPECT_THAT(LoadError("/"), StartsWith("/: "));
  EXPECT_THAT(LoadError(ModuleOf("none")), HasSubstr("registers no NF"));
  EXPECT_EQ(LoadError(ModuleOf("unresolved")),
            ModuleOf("unresolved") +
                ": cannot be loaded: undefined symbol: snf_nobody_has_this");
  EXPECT_EQ(LoadError(ModuleOf("too_large")),
            ModuleOf("too_large") +
                ": has an NF \"module_too_large\": it cannot have a slot "
                "\"past\": with its 65536 bytes there are more than 65536 of "
                "a flow");
  EXPECT_TRUE(NamesNfModule("my_nf.so"));
  EXPECT_TRUE(NamesNfModule("../my_nf"));
  EXPECT_FALSE(NamesNfModule("nat"));
}

}  // namespace
}  // namespace snf
