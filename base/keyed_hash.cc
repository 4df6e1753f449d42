// SPDX-License-Identifier: Apache-2.0
#include "base/keyed_hash.h"

#include <sys/random.h>

#include "base/check.h"
#include "base/rng.h"

namespace snf {

uint64_t SecretSeed() {
  uint64_t seed = 0;
  SNF_CHECK(getrandom(&seed, sizeof seed, 0) == sizeof seed);
  return seed;
}

KeyedHash::KeyedHash(uint64_t seed) : secret_{} {
  Rng rng(seed);
  for (uint64_t& word : secret_) word = rng.Next();
}

}  // namespace snf
