// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <link.h>
#include <openssl/evp.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/text/wording.h"
#include "base/version.h"
#include "platform/commands/host/host_command.h"
#include "platform/process/child_program.h"
#include "resource_manager/lxd/host_launch.h"
#include "resource_manager/lxd/lxd_client.h"

namespace snf {
namespace {

namespace fs = std::filesystem;

absl::Status Failed(const fs::path& path, const std::error_code& error) {
  return absl::UnavailableError(
      fmt::format("{}: {}", Printable(path.string()), error.message()));
}

// The libraries that are loaded with this program, the loader among them.
std::vector<std::string> LoadedLibraries() {
  std::vector<std::string> names;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        const std::string name = info->dlpi_name;
        // Neither the program, which has no name, nor the kernel's part.
        if (name.starts_with('/')) {
          static_cast<std::vector<std::string>*>(to)->push_back(name);
        }
        return 0;
      },
      &names);
  return names;
}

// A folder that is removed with the object.
class ScratchFolder {
 public:
  absl::Status Make() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "snf-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      return absl::UnavailableError(
          fmt::format("{}: {}", name, std::strerror(errno)));
    }
    path_ = name;
    return absl::OkStatus();
  }
  ScratchFolder() = default;
  ~ScratchFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The files of an image: this program, its libraries, and nothing else that
// could run. The same program gives the same bytes.
class HostImage {
 public:
  explicit HostImage(fs::path folder) : folder_(std::move(folder)) {}

  // Returns InvalidArgument if a file of `added` has no absolute path, or one
  // with "..", which would lead out of the image's folder. Else returns
  // errors of the files.
  absl::Status Gather(const std::vector<std::string>& added) {
    for (const char* name :
         {"dev", "etc", "proc", "run", "sys", "tmp", "usr/bin"}) {
      std::error_code error;
      fs::create_directories(Root() / name, error);
      if (error) return Failed(Root() / name, error);
    }
    if (absl::Status s = Copy("/proc/self/exe", "usr/bin/snf"); !s.ok()) {
      return s;
    }
    for (const std::string& library : LoadedLibraries()) {
      if (absl::Status s = Copy(library, library.substr(1)); !s.ok()) return s;
    }
    for (const std::string& file : added) {
      if (!file.starts_with('/') ||
          std::ranges::count(fs::path(file), fs::path("..")) > 0) {
        return absl::InvalidArgumentError(fmt::format(
            "--add: {}: an absolute path without .. is wanted, which the file "
            "has on the hosts as well",
            Printable(file)));
      }
      if (absl::Status s = Copy(file, file.substr(1)); !s.ok()) return s;
    }
    return WriteTexts();
  }

  absl::Status Pack(const std::string& file) const {
    return RunChildProgram(
               {.words = {"tar", "--create", "--file=" + file, "--force-local",
                          "--directory=" + folder_.string(), "--owner=0",
                          "--group=0", "--numeric-owner", "--sort=name",
                          "--mtime=@0", "--mode=u=rwX,go=rX", "metadata.yaml",
                          "rootfs"}})
        .status();
  }

 private:
  fs::path Root() const { return folder_ / "rootfs"; }

  absl::Status Copy(const std::string& from, const std::string& to) const {
    const fs::path path = Root() / to;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    // Follows links: a library is named as the loader looks for it.
    fs::copy(from, path,
             fs::copy_options::recursive | fs::copy_options::overwrite_existing,
             error);
    return error ? Failed(from, error) : absl::OkStatus();
  }

  absl::Status WriteTexts() const {
    utsname machine{};
    uname(&machine);
    const std::array<std::pair<fs::path, std::string>, 5> texts = {
        {{folder_ / "metadata.yaml",
          fmt::format("architecture: {}\n"
                      "creation_date: 1\n"
                      "properties:\n"
                      "  description: SNF {}, a host of units\n"
                      "  {}: \"{}\"\n",
                      machine.machine, kVersion, HostLauncher::kImageProperty,
                      kVersion)},
         {Root() / "etc/passwd", "root:x:0:0:root:/:/usr/bin/snf\n"},
         {Root() / "etc/group", "root:x:0:\n"},
         {Root() / "etc/hosts", "127.0.0.1 localhost\n"},
         {Root() / "etc/nsswitch.conf", "hosts: files dns\n"}}};
    for (const auto& [path, text] : texts) {
      std::ofstream file(path);
      file << text;
      file.close();
      if (!file) {
        return Failed(path, std::make_error_code(std::errc::io_error));
      }
    }
    return absl::OkStatus();
  }

  const fs::path folder_;
};

// Returns the SHA-256 sum of a file, in hexadecimal.
absl::StatusOr<std::string> SumOf(const std::string& name) {
  constexpr size_t kPiece = 1U << 16U;
  std::ifstream file(name, std::ios::binary);
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> digest(
      EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr);
  std::vector<char> piece(kPiece);
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    EVP_DigestUpdate(digest.get(), piece.data(),
                     static_cast<size_t>(file.gcount()));
  }
  if (!file.eof()) {
    return Failed(name, std::make_error_code(std::errc::io_error));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned bytes = 0;
  EVP_DigestFinal_ex(digest.get(), sum.data(), &bytes);
  std::string text;
  for (unsigned i = 0; i < bytes; ++i) text += fmt::format("{:02x}", sum[i]);
  return text;
}

class HostImageCommand final : public FlagCommand {
 public:
  HostImageCommand()
      : FlagCommand(
            {.summary = "make the image of hosts that LXD launches",
             .usage = "snf host image [--output=FILE | --lxd=SOCKET] "
                      "[--image=NAME] [--add=FILE,…]",
             .about =
                 "Makes an image of this program and its shared libraries, and "
                 "gives it to LXD. LXD's cluster copies the image to the "
                 "members that need it. The same program makes the same image; "
                 "an image of that name of an earlier program stays in LXD, "
                 "without the name."}) {
    flags().Text("output", output_, "FILE",
                 "write the image to this file, as lxc image import takes it, "
                 "instead of giving it to LXD");
    lxd_.AddTo(flags());
    flags().Text("image", image_, "NAME", "name of the image in LXD");
    flags().Text("add", added_, "FILE,…",
                 "files or folders that hosts need as well, as NFs' rules and "
                 "modules, with absolute paths");
  }

 private:
  absl::Status Run() override {
    ScratchFolder scratch;
    if (absl::Status s = scratch.Make(); !s.ok()) return s;
    HostImage image(scratch.path() / "files");
    const std::vector<std::string> added =
        absl::StrSplit(added_, ',', absl::SkipEmpty());
    if (absl::Status s = image.Gather(added); !s.ok()) return s;
    const std::string file =
        output_.empty() ? (scratch.path() / "snf.tar").string() : output_;
    if (absl::Status s = image.Pack(file); !s.ok()) return s;
    return output_.empty() ? Give(file) : absl::OkStatus();
  }

  absl::Status Give(const std::string& file) const {
    const absl::StatusOr<std::string> fingerprint = SumOf(file);
    if (!fingerprint.ok()) return fingerprint.status();
    LxdSocket socket = lxd_.Socket();
    LxdClient client(socket);
    const absl::StatusOr<bool> is_new =
        HostLauncher::GiveImage(client, file, *fingerprint, image_);
    if (!is_new.ok()) return is_new.status();
    if (!*is_new) {
      fmt::print("image \"{}\" is up to date: {}\n", image_, *fingerprint);
      return absl::OkStatus();
    }
    fmt::print("image \"{}\" is SNF {}: {}\n", image_, kVersion, *fingerprint);
    return absl::OkStatus();
  }

  std::string output_;
  LxdFlags lxd_;
  std::string image_ = "snf";
  std::string added_;
};

}  // namespace

std::unique_ptr<Command> CreateHostImageCommand() {
  return std::make_unique<HostImageCommand>();
}

}  // namespace snf
