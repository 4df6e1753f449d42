// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_COMPRESSION_H_
#define SNF_TRACES_COMPRESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace snf {

enum class Compression : uint8_t { kNone, kGzip, kZstd };

// Recognises a compression by the first bytes of a file (RFC 1952, RFC 8878
// with skippable frames).
Compression CompressionOfMagic(std::span<const std::byte> head);
// Recognises a compression by the suffix .gz or .zst.
Compression CompressionOfName(std::string_view name);

// Undoes one compressed file: any number of gzip members or zstd frames in a
// row. Owner-thread only.
class Decompressor {
 public:
  // Returns null for kNone.
  static std::unique_ptr<Decompressor> Create(Compression compression);
  virtual ~Decompressor() = default;

  // Decodes from the front of `in` into `out` and advances both spans past the
  // bytes read and written. If `out` has room left afterwards, all of `in` has
  // been decoded. Returns false for bad data: see error().
  virtual bool Decode(std::span<const std::byte>& in,
                      std::span<std::byte>& out) = 0;

  // Returns true between members, where the file may end. After a failed
  // Decode(), true means that the data here is not a member at all.
  bool between_members() const { return between_members_; }
  const std::string& error() const { return error_; }

 protected:
  bool between_members_ = true;
  std::string error_;
};

// Compresses one file. Owner-thread only.
class Compressor {
 public:
  // Returns null for kNone.
  static std::unique_ptr<Compressor> Create(Compression compression);
  virtual ~Compressor() = default;

  // Encodes from the front of `in` into `out` and advances both spans past the
  // bytes read and written. With `finish` the file ends after `in`. Returns
  // true if all of `in` is encoded (and, with `finish`, the file is complete),
  // false if `out` is full: call again.
  virtual bool Encode(std::span<const std::byte>& in, std::span<std::byte>& out,
                      bool finish) = 0;
};

}  // namespace snf

#endif  // SNF_TRACES_COMPRESSION_H_
