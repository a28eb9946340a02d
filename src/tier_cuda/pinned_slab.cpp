// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier_cuda/pinned_slab.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <cuda_runtime_api.h>

#include <utility>

namespace trireme::tier {

void PinnedSlab::Unpin::operator()(std::byte* data) const {
  cudaFreeHost(data);
}

PinnedSlab::PinnedSlab(Bytes size) : places_(size) {
  if (places_.capacity() == Bytes(0)) return;
  void* data = nullptr;
  const cudaError_t status = cudaHostAlloc(
      &data, static_cast<std::size_t>(places_.capacity().count()), cudaHostAllocDefault);
  if (status != cudaSuccess) {
    (void)cudaGetLastError();
    throw Error(concat("the outer tier needs ", to_text(places_.capacity()), " of pinned memory: ",
                       cudaGetErrorString(status), "; memory.host_budget asks for it"));
  }
  data_.reset(static_cast<std::byte*>(data));
}

std::vector<Places::Piece> PinnedSlab::reserve(Bytes size) {
  auto pieces = places_.take(size);
  if (!pieces) {
    throw Error(concat("the outer tier is full: asked for ", to_text(size), " with ",
                       to_text(capacity() - used()), " free of ", to_text(capacity()),
                       "; memory.host_budget says how much there is"));
  }
  return *std::move(pieces);
}

}  // namespace trireme::tier
