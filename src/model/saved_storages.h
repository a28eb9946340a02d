// What autograd saves during a forward, seen from C++: LibTorch offers saved-tensor hooks to Python
// alone, but asks the engine for them through a virtual function that a subclass may override.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Storage.h>

#include <vector>

namespace trireme::model {

/// Makes this process's autograd engine one that knows SavedStorages. Idempotent; before the first
/// backward of any thread.
void install_saved_storages();

/// While it lives, every storage that autograd saves on this thread is noted once. Needs
/// install_saved_storages().
class SavedStorages {
 public:
  SavedStorages();
  ~SavedStorages();
  SavedStorages(const SavedStorages&) = delete;
  SavedStorages& operator=(const SavedStorages&) = delete;

  void note(const c10::Storage& storage);
  std::vector<c10::Storage> take() { return std::move(storages_); }

 private:
  SavedStorages* outer_;
  std::vector<c10::Storage> storages_;
};

}  // namespace trireme::model
