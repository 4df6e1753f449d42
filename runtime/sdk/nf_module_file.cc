// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf_module_file.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace snf {
namespace {

constexpr std::string_view kSymbol = "snf_nf_abi";
#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#else
#error "name the ELF machine of this processor"
#endif

absl::Status BadFile(std::string_view what) {
  return absl::InvalidArgumentError(std::string(what));
}

absl::Status CutOff() {
  return BadFile("is cut off, or its ELF headers are damaged");
}

// A part of a file. Offsets come from the file itself, so every access is
// checked against the bounds.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // Returns nothing if the part is not inside.
  std::optional<Bytes> Part(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) {
      return std::nullopt;
    }
    return Bytes(bytes_.subspan(offset, size));
  }
  template <typename T>
  std::optional<T> Read(uint64_t offset) const {
    const std::optional<Bytes> part = Part(offset, sizeof(T));
    if (!part.has_value()) return std::nullopt;
    T value;
    std::memcpy(&value, part->bytes_.data(), sizeof value);
    return value;
  }
  // Returns true if `text` and a '\0' stand at `offset`.
  bool Has(uint64_t offset, std::string_view text) const {
    const std::optional<Bytes> part = Part(offset, text.size() + 1);
    return part.has_value() &&
           std::memcmp(part->bytes_.data(), text.data(), text.size()) == 0 &&
           part->bytes_.back() == std::byte{0};
  }
  uint64_t size() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

absl::Status CheckHeader(const Bytes& file, Elf64_Ehdr& header) {
  const auto magic = file.Read<std::array<char, SELFMAG>>(0);
  if (!magic.has_value() || std::memcmp(magic->data(), ELFMAG, SELFMAG) != 0) {
    return BadFile("is not an ELF file");
  }
  const auto ident = file.Read<std::array<unsigned char, EI_NIDENT>>(0);
  if (!ident.has_value()) return CutOff();
  if ((*ident)[EI_CLASS] == ELFCLASS32) {
    return BadFile("is for 32-bit machines, and this one has 64 bits");
  }
  const auto read = file.Read<Elf64_Ehdr>(0);
  if (!read.has_value() || (*ident)[EI_CLASS] != ELFCLASS64) return CutOff();
  header = *read;
  if ((*ident)[EI_DATA] != ELFDATA2LSB || header.e_machine != kMachine) {
    return BadFile(absl::StrCat("is for another kind of machine: ELF number ",
                                header.e_machine, ", and this one is ",
                                kMachine));
  }
  if (header.e_type != ET_DYN) return BadFile("is not a shared object");
  if (header.e_shentsize != sizeof(Elf64_Shdr)) return CutOff();
  return absl::OkStatus();
}

// Reads the symbol's bytes in the file.
absl::StatusOr<NfAbi> ReadSymbol(const Bytes& file, const Bytes& sections,
                                 const Elf64_Sym& symbol) {
  const auto section =
      sections.Read<Elf64_Shdr>(symbol.st_shndx * sizeof(Elf64_Shdr));
  if (!section.has_value() || section->sh_type == SHT_NOBITS) return CutOff();
  const auto content = file.Part(section->sh_offset, section->sh_size);
  if (!content.has_value()) return CutOff();
  // A value below the address wraps around, out of the section.
  const auto abi = content->Read<NfAbi>(symbol.st_value - section->sh_addr);
  if (!abi.has_value()) return CutOff();
  if (abi->magic != NfAbi::kMagic) {
    return BadFile(absl::StrCat("has a symbol ", std::string(kSymbol),
                                " that is something else"));
  }
  return *abi;
}

std::string TextOf(const NfAbi& abi) {
  std::string text(abi.text.begin(), std::ranges::find(abi.text, '\0'));
  for (char& c : text) {
    if (c < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

}  // namespace

absl::StatusOr<NfModuleFile> NfModuleFile::Open(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return BadFile(absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  return NfModuleFile(path, file);
}

NfModuleFile::~NfModuleFile() {
  if (file_ >= 0) close(file_);
}

absl::StatusOr<std::vector<std::byte>> NfModuleFile::Read() const {
  struct stat about {};
  if (fstat(file_, &about) != 0) return BadFile(std::strerror(errno));
  if (!S_ISREG(about.st_mode)) return BadFile("is not a regular file");
  const auto size = static_cast<uint64_t>(about.st_size);
  if (size > kMaxBytes) return BadFile("is larger than 1 GiB");
  std::vector<std::byte> bytes(size);
  for (size_t done = 0; done < size;) {
    const ssize_t count =
        pread(file_, &bytes[done], size - done, static_cast<off_t>(done));
    if (count < 0) {
      return BadFile(absl::StrCat("cannot be read: ", std::strerror(errno)));
    }
    if (count == 0) return CutOff();
    done += static_cast<size_t>(count);
  }
  return bytes;
}

absl::Status NfModuleFile::Load() {
  std::string path = absl::StrCat("/proc/self/fd/", file_);
  // A container has no /proc, and its files do not change.
  if (access(path.c_str(), F_OK) != 0) path = path_;
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) {
    file_ = -1;
    return absl::OkStatus();
  }
  std::string_view why = dlerror();
  if (why.starts_with(path + ": ")) why.remove_prefix(path.size() + 2);
  return BadFile(absl::StrCat("cannot be loaded: ", std::string(why)));
}

absl::StatusOr<NfAbi> ReadNfAbi(std::span<const std::byte> bytes) {
  const Bytes file(bytes);
  Elf64_Ehdr header{};
  if (absl::Status s = CheckHeader(file, header); !s.ok()) return s;
  const auto sections =
      file.Part(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr));
  if (!sections.has_value()) return CutOff();
  std::optional<Elf64_Sym> found;
  for (uint64_t at = 0; at < sections->size(); at += sizeof(Elf64_Shdr)) {
    const auto table = sections->Read<Elf64_Shdr>(at);
    if (table->sh_type != SHT_DYNSYM) continue;
    const auto names =
        sections->Read<Elf64_Shdr>(table->sh_link * sizeof(Elf64_Shdr));
    const auto symbols = file.Part(table->sh_offset, table->sh_size);
    if (!names.has_value() || !symbols.has_value()) return CutOff();
    const auto text = file.Part(names->sh_offset, names->sh_size);
    if (!text.has_value()) return CutOff();
    for (uint64_t i = 0; i < symbols->size() / sizeof(Elf64_Sym); ++i) {
      const auto symbol = symbols->Read<Elf64_Sym>(i * sizeof(Elf64_Sym));
      if (symbol->st_shndx == SHN_UNDEF || !text->Has(symbol->st_name, kSymbol))
        continue;
      if (found.has_value()) {
        return BadFile(absl::StrCat("has two symbols ", std::string(kSymbol)));
      }
      found = symbol;
    }
  }
  if (found.has_value()) return ReadSymbol(file, *sections, *found);
  return BadFile(absl::StrCat("is not an NF module: it has no symbol ",
                              std::string(kSymbol), ", which snf_add_nf adds"));
}

absl::Status CheckNfAbi(const NfAbi& theirs, const NfAbi& ours) {
  if (theirs.version != ours.version) {
    return BadFile(absl::StrCat("was built for version ", theirs.version,
                                " of the NF ABI, and this program has ",
                                ours.version, ": rebuild it"));
  }
  if (theirs.text != ours.text) {
    return BadFile(absl::StrCat("was built for \"", TextOf(theirs),
                                "\", and this program is \"", TextOf(ours),
                                "\": rebuild it"));
  }
  return absl::OkStatus();
}

}  // namespace snf
