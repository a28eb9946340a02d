// SPDX-License-Identifier: Apache-2.0
#include "saved/extra_tensors.h"

#include "state/tensor_types.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/pieces.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

namespace trireme::runtime {
namespace {

/// Elements that are compared at a time.
constexpr std::int64_t kPiece = 1 << 16;
/// GPT-2's value: its exp is 0 in float32.
constexpr double kMaskedScore = -1e4;

class ExtraTensors {
 public:
  ExtraTensors(const checkpoint::TensorSet& set, const config::ModelSpec& model,
               const std::string& place)
      : set_(set), model_(model), place_(place) {}

  void require(config::Extra extra, const std::string& name) const;

 private:
  /// Elements begin..end of a tensor, in float64.
  at::Tensor read(const std::string& name, std::int64_t begin, std::int64_t end) const;
  at::Tensor read(const std::string& name) const;
  at::ScalarType type_of(const std::string& name) const;
  bool is_embedding(const std::string& name, const std::string& embedding) const;
  bool is_causal_mask(const std::string& name) const;
  bool are_angles(const std::string& name) const;
  [[noreturn]] void refuse(const std::string& name, const std::string& why) const;

  const checkpoint::TensorSet& set_;
  const config::ModelSpec& model_;
  const std::string& place_;
};

void ExtraTensors::require(config::Extra extra, const std::string& name) const {
  const std::string embedding = config::WeightNames(model_).of("embedding", "token.weight").name;
  switch (extra) {
    case config::Extra::kNone:
      return;
    case config::Extra::kTiedHead:
      if (!is_embedding(name, embedding))
        refuse(name, concat("has other values than '", embedding,
                            "', though the model's head is tied to it: say tie_word_embeddings: "
                            "false in config.json (tied_head: false in a job whose weights have "
                            "none) to keep both, or take the tensor out"));
      return;
    case config::Extra::kCausalMask:
      if (!is_causal_mask(name))
        refuse(name,
               "is not [1, 1, n, n] with ones up to the diagonal and zeros above: attention "
               "here sees all earlier tokens and no later ones");
      return;
    case config::Extra::kMaskedScore:
      if (const at::Tensor score = read(name);
          score.numel() != 1 || !(score.item<double>() <= kMaskedScore))
        refuse(name, "is not one number of -10000 or less: attention here sees no later tokens");
      return;
    case config::Extra::kAngles:
      if (!are_angles(name))
        refuse(name,
               "has other values than config.json gives (rope_theta, head width): the model "
               "here would rotate by other angles");
      return;
  }
}

at::ScalarType ExtraTensors::type_of(const std::string& name) const {
  return type_named(set_.tensors.at(name).type, concat(place_, ": tensor '", name, "'"));
}

at::Tensor ExtraTensors::read(const std::string& name, std::int64_t begin, std::int64_t end) const {
  const checkpoint::Entry& entry = set_.tensors.at(name);
  const at::ScalarType type = type_of(name);
  const auto width = static_cast<std::int64_t>(at::elementSize(type));
  std::vector<std::byte> bytes(static_cast<std::size_t>((end - begin) * width));
  const io::InputFile file(set_.folder / entry.file);
  file.read(bytes, entry.offset.count() + begin * width);
  return at::from_blob(bytes.data(), {end - begin}, type).to(at::kDouble, false, /*copy=*/true);
}

at::Tensor ExtraTensors::read(const std::string& name) const {
  const std::vector<std::int64_t>& sizes = set_.tensors.at(name).sizes;
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return read(name, 0, count).reshape(sizes);
}

bool ExtraTensors::is_embedding(const std::string& name, const std::string& embedding) const {
  const auto there = set_.tensors.find(embedding);
  if (there == set_.tensors.end() || there->second.sizes != set_.tensors.at(name).sizes)
    return false;
  std::int64_t count = 1;
  for (const std::int64_t size : there->second.sizes) count *= size;
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const std::int64_t end = std::min(begin + kPiece, count);
    if (!at::equal(read(name, begin, end), read(embedding, begin, end))) return false;
  }
  return true;
}

bool ExtraTensors::is_causal_mask(const std::string& name) const {
  const std::vector<std::int64_t>& sizes = set_.tensors.at(name).sizes;
  if (sizes.size() != 4 || sizes[0] != 1 || sizes[1] != 1 || sizes[2] != sizes[3]) return false;
  const at::Tensor mask = read(name);
  return at::equal(mask, at::ones_like(mask).tril());
}

bool ExtraTensors::are_angles(const std::string& name) const {
  const auto* const llama = std::get_if<config::LlamaSpec>(&model_);
  if (llama == nullptr) return false;
  const at::Tensor there = read(name);
  const int width = llama->rotated_values();
  // Files have angles in the type of the weights, and before scaling, which config.json has.
  const at::Tensor pairs = at::arange(0, width, 2, at::kDouble) / static_cast<double>(width);
  const at::Tensor here = at::exp(pairs * -std::log(llama->rope_base));
  if (there.sizes() != here.sizes()) return false;
  const at::ScalarType type = type_of(name);
  const double close = type == at::kBFloat16 ? 1e-2 : type == at::kHalf ? 1e-3 : 1e-5;
  constexpr double kLeastHalf = 1e-7;  // what small ones are rounded to in float16
  return at::allclose(there, here, close, type == at::kHalf ? kLeastHalf : 0);
}

void ExtraTensors::refuse(const std::string& name, const std::string& why) const {
  throw InputError(concat(place_, ": tensor '", name, "' ", why));
}

}  // namespace

void require_nothing_new(const checkpoint::TensorSet& set, const config::ModelSpec& model,
                         const std::string& place) {
  const ExtraTensors tensors(set, model, place);
  const config::WeightNames names(model);
  for (const auto& [name, entry] : set.tensors) tensors.require(names.extra(name), name);
}

}  // namespace trireme::runtime
