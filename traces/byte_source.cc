// SPDX-License-Identifier: Apache-2.0
#include "traces/byte_source.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "traces/compression.h"
#include "traces/file_status.h"

namespace snf {
namespace {

constexpr size_t kWindowBytes = 256u << 10;  // stays within the L2 cache
constexpr size_t kInputBytes = 64u << 10;
constexpr size_t kMappedStepBytes = 4u << 20;
constexpr size_t kCompressionMagicBytes = 4;

// An open file that is read from front to back.
class InputFile {
 public:
  InputFile(int fd, bool owned) : fd_(fd), owned_(owned) {}
  InputFile(InputFile&& other) noexcept
      : fd_(other.fd_), owned_(other.owned_), bytes_read_(other.bytes_read_) {
    other.owned_ = false;
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile() {
    if (owned_) {
      close(fd_);
    }
  }

  // Bytes read into `out`, 0 at the end of the file; -1 with errno set.
  ssize_t Read(std::span<std::byte> out) {
    ssize_t got = 0;
    do {
      got = read(fd_, out.data(), out.size());
    } while (got < 0 && errno == EINTR);
    bytes_read_ += got > 0 ? static_cast<uint64_t>(got) : 0;
    return got;
  }

  int fd() const { return fd_; }
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  int fd_;
  bool owned_;
  uint64_t bytes_read_ = 0;
};

// The window is a part of the mapping, so that Fill() is called now and then
// and can give back the pages behind it: they would count as this process's.
class MappedSource final : public ByteSource {
 public:
  MappedSource(std::string name, std::byte* mapping, size_t bytes)
      : ByteSource(std::move(name)), mapping_(mapping), bytes_(bytes) {
    begin_ = mapping;
    end_ = mapping;
  }
  ~MappedSource() override { munmap(mapping_, bytes_); }

  uint64_t input_bytes_read() const override { return offset(); }
  uint64_t input_bytes_total() const override { return bytes_; }

 protected:
  bool Fill(size_t bytes) override {
    const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const auto consumed = static_cast<size_t>(begin_ - mapping_);
    const size_t done = consumed - consumed % page_bytes;
    if (done > released_) {
      madvise(mapping_ + released_, done - released_, MADV_DONTNEED);
      released_ = done;
    }
    end_ =
        begin_ + std::min(bytes_ - consumed, std::max(bytes, kMappedStepBytes));
    return bytes <= size();
  }

 private:
  std::byte* mapping_;
  size_t bytes_;
  size_t released_ = 0;  // from the front of the mapping, whole pages
};

class StreamSource final : public ByteSource {
 public:
  // `head` are the bytes already read from `file`.
  StreamSource(std::string name, InputFile file, uint64_t total_bytes,
               std::span<const std::byte> head)
      : ByteSource(std::move(name)),
        file_(std::move(file)),
        total_bytes_(total_bytes),
        compression_(CompressionOfMagic(head)),
        decompressor_(Decompressor::Create(compression_)) {
    Grow(kWindowBytes);
    if (decompressor_ == nullptr) {
      std::copy(head.begin(), head.end(), window_.get());
      end_ += head.size();
    } else {
      input_ = std::make_unique_for_overwrite<std::byte[]>(kInputBytes);
      std::copy(head.begin(), head.end(), input_.get());
      unread_ = {input_.get(), head.size()};
    }
  }

  Compression compression() const override { return compression_; }
  uint64_t input_bytes_read() const override { return file_.bytes_read(); }
  uint64_t input_bytes_total() const override { return total_bytes_; }

 protected:
  bool Fill(size_t bytes) override {
    if (bytes > window_bytes_) {
      Grow(std::max(bytes, 2 * window_bytes_));
    } else {
      const size_t kept = size();
      std::memmove(window_.get(), begin_, kept);
      begin_ = window_.get();
      end_ = begin_ + kept;
    }
    while (size() < bytes && ReadOn()) {
    }
    return size() >= bytes;
  }

 private:
  void Grow(size_t window_bytes) {
    auto window = std::make_unique_for_overwrite<std::byte[]>(window_bytes);
    const size_t kept = size();
    std::copy(begin_, end_, window.get());
    window_ = std::move(window);
    window_bytes_ = window_bytes;
    begin_ = window_.get();
    end_ = begin_ + kept;
  }

  // Adds at least one byte behind the window's end; false at the end of the
  // stream and after a failure.
  bool ReadOn() {
    if (ended_) {
      return false;
    }
    std::span<std::byte> room(window_.get() + size(), window_bytes_ - size());
    const size_t room_bytes = room.size();
    if (decompressor_ != nullptr) {
      ended_ = !Decompress(room);
    } else {
      const size_t got = ReadFile(room);
      room = room.subspan(got);
      ended_ = got == 0;
    }
    end_ += room_bytes - room.size();
    return !ended_;
  }

  // Decodes at least one byte into `room` and moves its front; false at the
  // end of the stream and after a failure.
  bool Decompress(std::span<std::byte>& room) {
    const size_t room_bytes = room.size();
    for (;;) {
      if (!decompressor_->Decode(unread_, room)) {
        NoteBadData();
        return false;
      }
      if (room.size() < room_bytes) {
        decoded_any_ = true;
        return true;
      }
      if (unread_.empty()) {
        const size_t got = ReadFile({input_.get(), kInputBytes});
        unread_ = {input_.get(), got};
        if (got == 0) {
          if (status_.ok() && !decompressor_->between_members()) {
            odd_end_ = "the compressed data is cut short";
          }
          return false;
        }
      }
    }
  }

  // Bytes after the last member may be padding, which gzip(1) ignores too.
  void NoteBadData() {
    if (decoded_any_ && decompressor_->between_members()) {
      odd_end_ = "bytes after the compressed data are ignored";
      return;
    }
    status_ = absl::DataLossError("bad compressed data before byte " +
                                  std::to_string(file_.bytes_read()) +
                                  " of the file: " + decompressor_->error());
  }

  size_t ReadFile(std::span<std::byte> out) {
    const ssize_t got = file_.Read(out);
    if (got < 0) {
      status_ = FileStatus("cannot read", errno);
      return 0;
    }
    return static_cast<size_t>(got);
  }

  InputFile file_;
  uint64_t total_bytes_;
  Compression compression_;
  std::unique_ptr<Decompressor> decompressor_;  // null: not compressed
  bool ended_ = false;
  bool decoded_any_ = false;
  std::unique_ptr<std::byte[]> window_;  // holds [begin_, end_)
  size_t window_bytes_ = 0;
  std::unique_ptr<std::byte[]> input_;  // compressed bytes; holds unread_
  std::span<const std::byte> unread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> ByteSource::Open(
    const std::string& path) {
  const bool is_stdin = path == "-";
  const std::string name = is_stdin ? "stdin" : path;
  const int fd =
      is_stdin ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return FileStatus(name + ": cannot open", errno);
  }
  InputFile file(fd, !is_stdin);
  struct stat facts {};
  if (fstat(fd, &facts) != 0) {
    return FileStatus(name + ": cannot stat", errno);
  }
  const bool regular = S_ISREG(facts.st_mode);
  const auto file_bytes = regular ? static_cast<uint64_t>(facts.st_size) : 0;

  std::array<std::byte, kCompressionMagicBytes> magic;
  size_t magic_bytes = 0;
  while (magic_bytes < magic.size()) {
    const ssize_t got = file.Read(std::span(magic).subspan(magic_bytes));
    if (got < 0) {
      return FileStatus(name + ": cannot read", errno);
    }
    if (got == 0) {
      break;
    }
    magic_bytes += static_cast<size_t>(got);
  }
  const std::span<const std::byte> head(magic.data(), magic_bytes);

  // stdin may stand anywhere in its file, so it is never mapped.
  if (regular && !is_stdin && file_bytes > 0 &&
      CompressionOfMagic(head) == Compression::kNone) {
    void* address = mmap(nullptr, file_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address != MAP_FAILED) {
      madvise(address, file_bytes, MADV_SEQUENTIAL);
      return std::make_unique<MappedSource>(
          name, static_cast<std::byte*>(address), file_bytes);
    }
    // A file system without mmap: read it as a stream.
  }
  return std::make_unique<StreamSource>(name, std::move(file), file_bytes,
                                        head);
}

}  // namespace snf
