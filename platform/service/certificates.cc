// SPDX-License-Identifier: Apache-2.0
#include "platform/service/certificates.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "platform/service/openssl_pointers.h"
#include "platform/service/pem.h"

namespace snf {
namespace {

constexpr size_t kMostOfHost = 253;

bool IsAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

bool IsHost(const std::string& host) {
  if (IsAddress(host)) return true;
  return !host.empty() && host.size() <= kMostOfHost &&
         std::isalnum(static_cast<unsigned char>(host.front())) != 0 &&
         std::ranges::all_of(host, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '.';
         });
}

// A certificate with its key.
struct Identity {
  CertificatePointer certificate;
  KeyPointer key;
};

// The difference between the kinds of certificates.
struct Kind {
  const char* name;   // of whom it is
  bool is_authority;  // it signs others
  const char* usage;  // of its key
  const char* purpose = nullptr;
  std::string names = {};  // by which it is known
};

bool AddExtension(X509& certificate, X509& issuer, int number,
                  const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const made =
      X509V3_EXT_conf_nid(nullptr, &context, number, value);
  if (made == nullptr) return false;
  const bool is_added = X509_add_ext(&certificate, made, -1) == 1;
  X509_EXTENSION_free(made);
  return is_added;
}

bool SetNumber(X509& certificate) {
  uint64_t number = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof number) !=
      1) {
    return false;
  }
  return ASN1_INTEGER_set_uint64(X509_get_serialNumber(&certificate),
                                 number | 1) == 1;
}

bool Describe(X509& certificate, const Identity& issuer, const Kind& kind) {
  X509_NAME* const name = X509_get_subject_name(&certificate);
  const auto* const text = reinterpret_cast<const unsigned char*>(kind.name);
  X509& by = issuer.certificate == nullptr ? certificate : *issuer.certificate;
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1,
                                    0) == 1 &&
         X509_set_issuer_name(&certificate, X509_get_subject_name(&by)) == 1 &&
         AddExtension(certificate, by, NID_basic_constraints,
                      kind.is_authority ? "critical,CA:TRUE,pathlen:0"
                                        : "critical,CA:FALSE") &&
         AddExtension(certificate, by, NID_key_usage, kind.usage) &&
         AddExtension(certificate, by, NID_subject_key_identifier, "hash") &&
         AddExtension(certificate, by, NID_authority_key_identifier,
                      "keyid:always") &&
         (kind.purpose == nullptr ||
          AddExtension(certificate, by, NID_ext_key_usage, kind.purpose)) &&
         (kind.names.empty() ||
          AddExtension(certificate, by, NID_subject_alt_name,
                       kind.names.c_str()));
}

// An empty issuer is itself. Returns no certificate if OpenSSL makes none.
Identity Make(const CertificateOptions& options, const Identity& issuer,
              const Kind& kind) {
  Identity made = {.certificate = CertificatePointer(X509_new()),
                   .key = KeyPointer(EVP_EC_gen("P-256"))};
  X509* const certificate = made.certificate.get();
  EVP_PKEY* const key = made.key.get();
  constexpr long kVersion3 = 2;
  const bool is_made =
      certificate != nullptr && key != nullptr &&
      X509_set_version(certificate, kVersion3) == 1 &&
      SetNumber(*certificate) && X509_set_pubkey(certificate, key) == 1 &&
      X509_gmtime_adj(X509_getm_notBefore(certificate), options.begin_s) !=
          nullptr &&
      X509_gmtime_adj(X509_getm_notAfter(certificate), options.end_s) !=
          nullptr &&
      Describe(*certificate, issuer, kind) &&
      X509_sign(certificate, issuer.key == nullptr ? key : issuer.key.get(),
                EVP_sha256()) > 0;
  if (!is_made) made.certificate.reset();
  return made;
}

std::string CertificateText(const Identity& identity) {
  const BioPointer memory(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(memory.get(), identity.certificate.get());
  return TakeText(*memory);
}

std::string KeyText(const Identity& identity) {
  const BioPointer memory(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(memory.get(), identity.key.get(), nullptr, nullptr,
                           0, nullptr, nullptr);
  return TakeText(*memory);
}

absl::Status SystemError(const std::string& path, int error) {
  const std::string text = fmt::format("{}: {}", path, std::strerror(error));
  if (error == EACCES || error == EPERM || error == EROFS) {
    return absl::PermissionDeniedError(text);
  }
  return absl::UnavailableError(text);
}

// New files in a directory, all or none.
class NewFiles {
 public:
  explicit NewFiles(std::string directory) : directory_(std::move(directory)) {}
  ~NewFiles() {
    if (is_kept_) return;
    for (const std::string& path : made_) unlink(path.c_str());
    if (has_made_directory_) rmdir(directory_.c_str());
  }
  absl::Status Begin() {
    has_made_directory_ = mkdir(directory_.c_str(), 0700) == 0;
    if (has_made_directory_ || errno == EEXIST) return absl::OkStatus();
    return SystemError(directory_, errno);
  }
  absl::Status Write(const std::string& name, const std::string& text,
                     mode_t mode) {
    const std::string path = fmt::format("{}/{}", directory_, name);
    const int file =
        open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file < 0 && errno == EEXIST) {
      return absl::FailedPreconditionError(fmt::format(
          "{} exists: use another directory, or remove its certificates first",
          path));
    }
    if (file < 0) return SystemError(path, errno);
    made_.push_back(path);
    const ssize_t written = write(file, text.data(), text.size());
    const int error = written < 0 ? errno : ENOSPC;
    const bool is_whole = written == static_cast<ssize_t>(text.size());
    if (close(file) != 0 || !is_whole) return SystemError(path, error);
    return absl::OkStatus();
  }
  void Keep() { is_kept_ = true; }

 private:
  const std::string directory_;
  bool has_made_directory_ = false;
  bool is_kept_ = false;
  std::vector<std::string> made_;
};

absl::StatusOr<std::string> NamesOf(const std::vector<std::string>& hosts) {
  std::string names = "DNS:localhost,IP:127.0.0.1,IP:::1";
  for (const std::string& host : hosts) {
    if (!IsHost(host)) {
      return absl::InvalidArgumentError(fmt::format(
          "\"{}\" is neither an IP address nor the name of a host", host));
    }
    names += (IsAddress(host) ? ",IP:" : ",DNS:") + host;
  }
  return names;
}

}  // namespace

absl::Status MakeCertificates(const std::string& directory,
                              const CertificateOptions& options) {
  const absl::StatusOr<std::string> names = NamesOf(options.hosts);
  if (!names.ok()) return names.status();
  const Identity authority = Make(options, Identity{},
                                  {.name = "SNF certificate authority",
                                   .is_authority = true,
                                   .usage = "critical,keyCertSign,cRLSign"});
  const auto issued = [&](const char* name, const char* purpose,
                          const std::string& known_by) {
    if (authority.certificate == nullptr) return Identity{};
    return Make(options, authority,
                {.name = name,
                 .is_authority = false,
                 .usage = "critical,digitalSignature",
                 .purpose = purpose,
                 .names = known_by});
  };
  const Identity server = issued("SNF server", "serverAuth", *names);
  const Identity client =
      issued("SNF client", "clientAuth", "URI:" + UriOf(options.role));
  if (server.certificate == nullptr || client.certificate == nullptr) {
    return absl::UnavailableError(
        fmt::format("OpenSSL makes no certificate: {}", TakeOpenSslError()));
  }
  NewFiles files(directory);
  if (absl::Status s = files.Begin(); !s.ok()) return s;
  for (const auto& [name, identity] : {std::pair{"ca", &authority},
                                       {"server", &server},
                                       {"client", &client}}) {
    const std::string stem = name;
    if (absl::Status s =
            files.Write(stem + ".crt", CertificateText(*identity), 0644);
        !s.ok()) {
      return s;
    }
    if (absl::Status s = files.Write(stem + ".key", KeyText(*identity), 0600);
        !s.ok()) {
      return s;
    }
  }
  files.Keep();
  return absl::OkStatus();
}

}  // namespace snf
