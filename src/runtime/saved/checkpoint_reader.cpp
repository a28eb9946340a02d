// SPDX-License-Identifier: Apache-2.0
#include "saved/checkpoint_reader.h"

#include "state/built_buffers.h"
#include "state/tensor_bytes.h"
#include "state/tensor_types.h"

#include "trireme/checkpoint/store.h"
#include "trireme/checkpoint/tensor_file.h"
#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

namespace trireme::runtime {
at::Tensor view_of(const std::vector<float>& numbers) {
  return at::from_blob(const_cast<float*>(numbers.data()),
                       {static_cast<std::int64_t>(numbers.size())}, at::TensorOptions(at::kFloat));
}

at::Tensor view_of(const std::vector<double>& numbers) {
  return at::from_blob(const_cast<double*>(numbers.data()),
                       {static_cast<std::int64_t>(numbers.size())}, at::TensorOptions(at::kDouble));
}

CheckpointReader::CheckpointReader(std::filesystem::path folder)
    : folder_(std::move(folder)), manifest_(checkpoint::load_manifest(folder_)) {
  try {
    tensors_ = checkpoint::joined(manifest_);
  } catch (const InputError& error) {
    throw InputError(concat(checkpoint::manifest_file(folder_).string(), ": ", error.what(),
                            ": the file is damaged; remove ", folder_.string(),
                            " to go on from the checkpoint before it"));
  }
  if (!manifest_.job.empty()) return;
  // Earlier versions did not record which of these were built with infinities.
  for (auto& [name, entry] : manifest_.tensors)
    entry.is_constant =
        name.find(kBuffers) != std::string::npos || entry.file.ends_with(checkpoint::kFrozenEnding);
}

const checkpoint::Joined& CheckpointReader::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  throw InputError(concat(folder_.string(), ": has no tensor '", name,
                          "', which this job's model and optimizer need: go on with those that it "
                          "was saved from"));
}

void CheckpointReader::read(const std::string& name, std::span<std::byte> into) const {
  for (const std::string& part : tensor(name).entries) {
    const checkpoint::Entry& entry = manifest_.tensors.at(part);
    const auto size = static_cast<std::size_t>(entry.size.count());
    ensure(size <= into.size(), "parts have the bytes of their tensor");
    checkpoint::read_tensor(folder_, part, entry, into.first(size));
    into = into.subspan(size);
  }
}

void CheckpointReader::read(const std::string& name, const at::Tensor& value) const {
  const at::NoGradGuard no_grad;
  const checkpoint::Joined& saved = tensor(name);
  const std::string found = shape_text(saved.type, saved.sizes);
  const std::string expected = shape_text(type_name(value.scalar_type()), value.sizes().vec());
  if (found != expected)
    throw InputError(concat(folder_.string(), ": tensor '", name, "' is ", found,
                            ", this job's is ", expected,
                            ": go on with the model that it was saved from"));
  if (value.is_cpu() && value.is_contiguous()) return read(name, writable_bytes_of(value));
  const at::Tensor host = at::empty(value.sizes(), at::TensorOptions(value.scalar_type()));
  read(name, writable_bytes_of(host));
  value.copy_(host);
}

void CheckpointReader::read_rounded(const std::string& name, const at::Tensor& value) const {
  const at::NoGradGuard no_grad;
  const at::Tensor saved = at::empty(value.sizes(), type_named(tensor(name).type, name));
  read(name, saved);
  value.copy_(saved);
  if (!may_overflow(saved.scalar_type(), value.scalar_type())) return;
  if (const std::string found = no_number_in(value); !found.empty())
    throw InputError(concat(folder_.string(), ": tensor '", name, "' has ", found,
                            " once it is rounded to ", type_name(value.scalar_type())));
}

bool CheckpointReader::has_written(const std::string& name, const at::Tensor& value) const {
  comm::ConstBytes rest = bytes_of(value);
  for (const std::string& part : tensor(name).entries) {
    const checkpoint::Entry& entry = manifest_.tensors.at(part);
    const auto size = static_cast<std::size_t>(entry.size.count());
    if (size > rest.size() || digest(rest.data(), size) != entry.digest) return false;
    rest = rest.subspan(size);
  }
  return rest.empty();
}

void CheckpointReader::require_steps(std::size_t steps) const {
  if (std::cmp_equal(steps, manifest_.step)) return;
  throw InputError(concat(checkpoint::manifest_file(folder_).string(), ": step is ", manifest_.step,
                          ", but the checkpoint has the losses of ", steps,
                          " steps: the file was changed; remove ", folder_.string(),
                          " to go on from the checkpoint before it"));
}

void CheckpointReader::require_nothing_left(const std::set<std::string>& taken) const {
  std::vector<std::string> left;
  for (const auto& [name, saved] : tensors_)
    if (name.starts_with(kParameters) && !taken.contains(name)) left.push_back(name);
  if (left.empty()) return;
  throw InputError(
      concat(folder_.string(), ": has '", left.front(), "' and ", left.size() - 1,
             " more parameters that this job's model does not have: go on with the model "
             "that it was saved from"));
}

}  // namespace trireme::runtime
