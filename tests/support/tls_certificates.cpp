#include "support/tls_certificates.hpp"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>

namespace weir::test {
namespace {

void must(bool ok, const char* what) {
  if (!ok) throw std::runtime_error(std::string("tls_certificates: ") + what);
}

struct releaser {
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(BIO* p) const { BIO_free_all(p); }
  void operator()(X509_EXTENSION* p) const { X509_EXTENSION_free(p); }
};
template <class T>
using owned = std::unique_ptr<T, releaser>;

owned<EVP_PKEY> make_key() {
  owned<EVP_PKEY> key(EVP_EC_gen("P-256"));
  must(key != nullptr, "EVP_EC_gen");
  return key;
}

void extend(X509* certificate, X509* issuer, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const owned<X509_EXTENSION> extension(
      X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str()));
  must(extension && X509_add_ext(certificate, extension.get(), -1) == 1, value.c_str());
}

owned<X509> make_certificate(EVP_PKEY* key, const char* name, X509* issuer, validity when) {
  static long serial = 0;
  owned<X509> made(X509_new());
  must(made && X509_set_version(made.get(), 2) == 1, "X509_new");
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), when.from_hours * 3600);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), when.to_hours * 3600);
  X509_set_pubkey(made.get(), key);
  X509_NAME* const subject = X509_get_subject_name(made.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  X509_set_issuer_name(made.get(), issuer ? X509_get_subject_name(issuer) : subject);
  return made;
}

template <class Write>
void write_pem(const std::string& file, Write&& write) {
  const owned<BIO> out(BIO_new_file(file.c_str(), "w"));
  must(out && write(out.get()) == 1, file.c_str());
}

}  // namespace

struct certificate_authority::material {
  owned<EVP_PKEY> key = make_key();
  owned<X509> certificate;
};

certificate_authority::certificate_authority() : material_(std::make_unique<material>()) {
  directory_ = (std::filesystem::temp_directory_path() / "weir-tls-XXXXXX").string();
  must(::mkdtemp(directory_.data()) != nullptr, "mkdtemp");
  EVP_PKEY* const key = material_->key.get();
  // All authorities have the same name: that is not what tells them apart.
  material_->certificate = make_certificate(key, "weir test authority", nullptr, {-1000, 1000});
  X509* const own = material_->certificate.get();
  extend(own, own, NID_basic_constraints, "critical,CA:TRUE");
  extend(own, own, NID_key_usage, "critical,keyCertSign,cRLSign");
  extend(own, own, NID_subject_key_identifier, "hash");
  must(X509_sign(own, key, EVP_sha256()) > 0, "X509_sign");
  write_pem(file(), [&](BIO* out) { return PEM_write_bio_X509(out, own); });
}

certificate_authority::~certificate_authority() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

tls_files certificate_authority::issue(const std::string& names, validity when,
                                       const std::string& file) {
  const owned<EVP_PKEY> key = make_key();
  X509* const issuer = material_->certificate.get();
  const owned<X509> made = make_certificate(key.get(), "weir test", issuer, when);
  extend(made.get(), issuer, NID_subject_alt_name, names);
  extend(made.get(), issuer, NID_ext_key_usage, "serverAuth,clientAuth");
  extend(made.get(), issuer, NID_authority_key_identifier, "keyid:always");
  must(X509_sign(made.get(), material_->key.get(), EVP_sha256()) > 0, "X509_sign");

  const tls_files files{directory_ + "/" + file + ".pem", directory_ + "/" + file + ".key"};
  write_pem(files.certificate, [&](BIO* out) { return PEM_write_bio_X509(out, made.get()); });
  write_pem(files.key, [&](BIO* out) {
    return PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return files;
}

std::string certificate_authority::encrypt(const tls_files& files) const {
  const owned<BIO> in(BIO_new_file(files.key.c_str(), "r"));
  const owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(in.get(), nullptr, nullptr, nullptr));
  std::string file = files.key + ".encrypted";
  write_pem(file, [&](BIO* out) {
    char passphrase[] = "open sesame";
    return PEM_write_bio_PKCS8PrivateKey(out, key.get(), EVP_aes_256_cbc(), passphrase,
                                         sizeof passphrase - 1, nullptr, nullptr);
  });
  return file;
}

}  // namespace weir::test
