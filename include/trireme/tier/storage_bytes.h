// Frees and reallocates the bytes of storages while the tensors that use them stay.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include <span>

namespace trireme::tier {

/// Gives the storage's bytes back to their allocator.
inline void free_bytes(const c10::Storage& storage) {
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(nullptr, storage.device()));
}
inline void free_bytes(std::span<const c10::Storage> storages) {
  for (const c10::Storage& storage : storages) free_bytes(storage);
}

/// Allocates bytes of undefined content for the storage with the allocator of its device.
inline void take_bytes(const c10::Storage& storage) {
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(
      c10::GetAllocator(storage.device_type())->allocate(storage.nbytes()));
}

}  // namespace trireme::tier
