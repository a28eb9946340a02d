// SPDX-License-Identifier: Apache-2.0
#include "saved_storages.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace trireme::model {
namespace {

thread_local SavedStorages* current = nullptr;  // NOLINT: what a scope sets for its thread

/// Gives back what it was given. With hooks, autograd no longer asks whether a saved tensor was
/// changed in place: this one does.
class Noting final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Noting(SavedStorages& into) : into_(into) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    // Detached: a tape that held its own output would hold itself.
    saved_ = tensor.detach();
    version_ = torch::autograd::impl::version_counter(saved_).current_version();
    if (saved_.has_storage()) into_.note(saved_.storage());
  }
  at::Tensor call_unpack_hook() override {
    const auto version = torch::autograd::impl::version_counter(saved_).current_version();
    TORCH_CHECK(version == version_,
                "a tensor that a backward needs was changed in place after the forward had saved "
                "it: it is at version ",
                version, ", saved was version ", version_);
    return saved_;
  }

 private:
  SavedStorages& into_;
  at::Tensor saved_;
  std::uint32_t version_ = 0;
};

class NotingEngine final : public torch::autograd::Engine {
 public:
  ~NotingEngine() override { stop(); }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (current == nullptr) return nullptr;
    return std::make_unique<Noting>(*current);
  }
  static Engine& get() {
    static auto* engine = new NotingEngine;  // never freed: graphs may outlive static destruction
    return *engine;
  }
};

}  // namespace

void install_saved_storages() {
  static const bool installed = [] {
    torch::autograd::set_default_engine_stub(&NotingEngine::get);
    return true;
  }();
  (void)installed;
}

SavedStorages::SavedStorages() : outer_(current) {
  current = this;
}

SavedStorages::~SavedStorages() {
  current = outer_;
}

void SavedStorages::note(const c10::Storage& storage) {
  const auto is_same = [&](const c10::Storage& known) { return known.is_alias_of(storage); };
  if (std::none_of(storages_.begin(), storages_.end(), is_same)) storages_.push_back(storage);
}

}  // namespace trireme::model
