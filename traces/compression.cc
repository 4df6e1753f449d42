// SPDX-License-Identifier: Apache-2.0
#include "traces/compression.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace snf {
namespace {

constexpr int kGzipWindowBits = 15 + 16;  // + 16: gzip framing, not zlib's
constexpr int kGzipMemoryLevel = 8;
constexpr int kGzipLevel = Z_DEFAULT_COMPRESSION;
constexpr int kZstdLevel = ZSTD_CLEVEL_DEFAULT;

// zlib counts in unsigned int and reads its input through a mutable pointer.
void Attach(z_stream& stream, std::span<const std::byte> in,
            std::span<std::byte> out) {
  constexpr size_t kMost = std::numeric_limits<uInt>::max();
  stream.next_in =
      const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data()));
  stream.avail_in = static_cast<uInt>(std::min(in.size(), kMost));
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(std::min(out.size(), kMost));
}

void Advance(const z_stream& stream, std::span<const std::byte>& in,
             std::span<std::byte>& out) {
  const auto* in_at = reinterpret_cast<const std::byte*>(stream.next_in);
  auto* out_at = reinterpret_cast<std::byte*>(stream.next_out);
  in = in.subspan(static_cast<size_t>(in_at - in.data()));
  out = out.subspan(static_cast<size_t>(out_at - out.data()));
}

class GzipDecompressor final : public Decompressor {
 public:
  GzipDecompressor() {
    SNF_CHECK(inflateInit2(&stream_, kGzipWindowBits) == Z_OK);
  }
  ~GzipDecompressor() override { inflateEnd(&stream_); }

  bool Decode(std::span<const std::byte>& in,
              std::span<std::byte>& out) override {
    if (between_members_) {
      if (in.empty()) {
        return true;
      }
      inflateReset(&stream_);
    }
    Attach(stream_, in, out);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    Advance(stream_, in, out);
    // Z_BUF_ERROR only says that there was nothing to do.
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      error_ = stream_.msg != nullptr ? stream_.msg : zError(result);
      return false;
    }
    between_members_ = result == Z_STREAM_END;
    return true;
  }

 private:
  z_stream stream_{};
};

class ZstdDecompressor final : public Decompressor {
 public:
  ZstdDecompressor() : stream_(ZSTD_createDStream()) {
    SNF_CHECK(stream_ != nullptr);
  }
  ~ZstdDecompressor() override { ZSTD_freeDStream(stream_); }

  bool Decode(std::span<const std::byte>& in,
              std::span<std::byte>& out) override {
    if (between_members_ && in.empty()) {
      return true;
    }
    ZSTD_inBuffer input{in.data(), in.size(), 0};
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    const size_t result = ZSTD_decompressStream(stream_, &output, &input);
    in = in.subspan(input.pos);
    out = out.subspan(output.pos);
    if (ZSTD_isError(result) != 0) {
      error_ = ZSTD_getErrorName(result);
      return false;
    }
    between_members_ = result == 0;
    return true;
  }

 private:
  ZSTD_DStream* stream_;
};

class GzipCompressor final : public Compressor {
 public:
  GzipCompressor() {
    SNF_CHECK(deflateInit2(&stream_, kGzipLevel, Z_DEFLATED, kGzipWindowBits,
                           kGzipMemoryLevel, Z_DEFAULT_STRATEGY) == Z_OK);
  }
  ~GzipCompressor() override { deflateEnd(&stream_); }

  bool Encode(std::span<const std::byte>& in, std::span<std::byte>& out,
              bool finish) override {
    Attach(stream_, in, out);
    const int result = deflate(&stream_, finish ? Z_FINISH : Z_NO_FLUSH);
    Advance(stream_, in, out);
    return finish ? result == Z_STREAM_END : in.empty();
  }

 private:
  z_stream stream_{};
};

class ZstdCompressor final : public Compressor {
 public:
  ZstdCompressor() : stream_(ZSTD_createCCtx()) {
    SNF_CHECK(stream_ != nullptr);
    ZSTD_CCtx_setParameter(stream_, ZSTD_c_compressionLevel, kZstdLevel);
    ZSTD_CCtx_setParameter(stream_, ZSTD_c_checksumFlag, 1);
  }
  ~ZstdCompressor() override { ZSTD_freeCCtx(stream_); }

  bool Encode(std::span<const std::byte>& in, std::span<std::byte>& out,
              bool finish) override {
    ZSTD_inBuffer input{in.data(), in.size(), 0};
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    const size_t left = ZSTD_compressStream2(
        stream_, &output, &input, finish ? ZSTD_e_end : ZSTD_e_continue);
    SNF_CHECK(ZSTD_isError(left) == 0);
    in = in.subspan(input.pos);
    out = out.subspan(output.pos);
    return finish ? left == 0 : in.empty();
  }

 private:
  ZSTD_CCtx* stream_;
};

}  // namespace

Compression CompressionOfMagic(std::span<const std::byte> head) {
  if (head.size() >= 2 && head[0] == std::byte{0x1f} &&
      head[1] == std::byte{0x8b}) {
    return Compression::kGzip;
  }
  if (head.size() < 4) {
    return Compression::kNone;
  }
  const uint32_t word = std::to_integer<uint32_t>(head[0]) |
                        std::to_integer<uint32_t>(head[1]) << 8 |
                        std::to_integer<uint32_t>(head[2]) << 16 |
                        std::to_integer<uint32_t>(head[3]) << 24;
  const bool zstd = word == ZSTD_MAGICNUMBER ||
                    (word & 0xffff'fff0) == ZSTD_MAGIC_SKIPPABLE_START;
  return zstd ? Compression::kZstd : Compression::kNone;
}

Compression CompressionOfName(std::string_view name) {
  if (name.ends_with(".gz")) {
    return Compression::kGzip;
  }
  return name.ends_with(".zst") ? Compression::kZstd : Compression::kNone;
}

std::unique_ptr<Decompressor> Decompressor::Create(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return nullptr;
    case Compression::kGzip:
      return std::make_unique<GzipDecompressor>();
    case Compression::kZstd:
      return std::make_unique<ZstdDecompressor>();
  }
  return nullptr;
}

std::unique_ptr<Compressor> Compressor::Create(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return nullptr;
    case Compression::kGzip:
      return std::make_unique<GzipCompressor>();
    case Compression::kZstd:
      return std::make_unique<ZstdCompressor>();
  }
  return nullptr;
}

}  // namespace snf
