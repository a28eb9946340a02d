// SPDX-License-Identifier: Apache-2.0
#include "tier/pinned.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/units.h"

#include <cuda_runtime_api.h>

namespace trireme::tier {

Pinned::Pinned(std::span<std::byte> memory, std::string_view what, std::string_view advice)
    : memory_(memory) {
  if (memory_.empty()) return;
  const cudaError_t status =
      cudaHostRegister(memory_.data(), memory_.size(), cudaHostRegisterDefault);
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  throw Error(concat(what, " needs ", to_text(Bytes(static_cast<std::int64_t>(memory_.size()))),
                     " of pinned memory: ", cudaGetErrorString(status), "; ", advice));
}

Pinned::~Pinned() {
  if (!memory_.empty()) cudaHostUnregister(memory_.data());
}

}  // namespace trireme::tier
