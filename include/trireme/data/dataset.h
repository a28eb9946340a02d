// Data sets: any micro-batch of any step as a function of (job, seed, step, micro-batch), so that a
// rank loads its own part alone and a resumed run goes on with what would have come.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trireme::data {

/// What the chain takes, in the words of model::ChainModel.
struct ExampleShape {
  std::string input;         ///< "tokens" | "vectors" | "images"
  std::int64_t inputs = 0;   ///< tokens: context; vectors: width; images: values of one
  std::int64_t classes = 0;  ///< size of the vocabulary, or number of classes
  std::int64_t channels = 0, height = 0, width = 0;  ///< of images
  bool takes_masks = false;                          ///< targets may be kMasked
};

/// A target that does not count (LibTorch's default `ignore_index`).
inline constexpr std::int64_t kMasked = -100;

/// On the CPU. tokens: both int64 [B, T], the target shifted by one; vectors: float [B, inputs] and
/// int64 [B]; images: float [B, channels, height, width] and int64 [B]. Targets of documents that
/// do not count are kMasked.
struct MicroBatch {
  at::Tensor input, target;
};

/// In nats per token, of the validation part.
struct UnigramLoss {
  double entropy = 0;        ///< by the validation part's own counts
  double cross_entropy = 0;  ///< by the train part's counts plus one
};

/// Loading is const and may be done from several threads. It allocates the two tensors it returns
/// and no other.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Examples per epoch of training, at least 1.
  virtual std::int64_t train_examples() const = 0;
  /// Examples of the validation part that do not overlap; 0: there is no validation part.
  virtual std::int64_t validation_examples() const = 0;

  /// Examples first..first+count-1 of the endless sequence of training. Throws InputError for a
  /// token that the vocabulary does not have, and for an image that cannot be read.
  virtual MicroBatch train(std::int64_t first, std::int64_t count) const = 0;

  /// Examples first..first+count-1 of `total` that are spread evenly over the validation part,
  /// always the same; they overlap or repeat if `total` is over validation_examples().
  virtual MicroBatch validation(std::int64_t first, std::int64_t count,
                                std::int64_t total) const = 0;

  /// The targets of these alone, the same; images are not read for them.
  virtual at::Tensor train_target(std::int64_t first, std::int64_t count) const {
    return train(first, count).target;
  }
  virtual at::Tensor validation_target(std::int64_t first, std::int64_t count,
                                       std::int64_t total) const {
    return validation(first, count, total).target;
  }

  /// How many targets of these count, at least one per example; nothing: all do, always.
  virtual std::optional<std::int64_t> train_counted(std::int64_t, std::int64_t) const {
    return std::nullopt;
  }
  virtual std::optional<std::int64_t> validation_counted(std::int64_t, std::int64_t,
                                                         std::int64_t) const {
    return std::nullopt;
  }

  /// Tokens of these examples' inputs without the padding of rows; nothing: no row has any.
  virtual std::optional<std::int64_t> train_tokens(std::int64_t, std::int64_t) const {
    return std::nullopt;
  }

  /// Nothing where there is no validation part, or no row of tokens. Of a part with more than 2^26
  /// tokens, evenly spaced stretches are counted.
  virtual std::optional<UnigramLoss> unigram_loss() const = 0;

  /// Equal where the data are, so that ranks on different hosts can be compared, and a run with the
  /// checkpoint that it resumes from. Large files, but those of documents, count by size and by
  /// evenly spaced samples, many images by name and size and by evenly spaced ones of them.
  virtual std::string digest() const = 0;

  /// For people: "text, 14 files: 301234 tokens to train on, 15854 for validation".
  virtual std::string describe() const = 0;
};

/// Opens what `spec` names:
///
/// - text: the files' bytes are the tokens. Patterns are expanded; of several names of one file
///   (symbolic links) the file's own name counts, else the first; files follow each other sorted by
///   name, each ending with a newline (added where the file has none). Held in memory.
/// - tokens: the same, but raw little-endian uint16 or uint32, mapped, and looked
///   through for tokens that the vocabulary does not have; nothing in between.
/// - documents: files of texts of any length that say which of their tokens are to be learned
///   (docs/models.md says what is in them), mapped. An example of T inputs holds the first T + 1
///   tokens of one document, or with `packed` several whole ones behind each other. Targets that
///   are not to be learned, a document's first token, and what an example has no tokens for are
///   masked. Documents in which nothing is to be learned are left out.
/// - images: PNM (P5, P6), PNG and JPEG files. An image's class is its folder's name; the names in
///   order are classes 0, 1, ... Images are resized, so that they just cover the chain's size, and
///   cropped at the centre; values are 0..1 less the mean of their channel over (some of) the train
///   part. Read when they are needed. Or packed files, mapped (docs/models.md says what is in
///   them).
/// - synthetic: nothing is read. vectors: the class is the largest of `classes` noisy linear forms
///   of the first inputs. tokens: sequences in which every token has four equally likely
///   successors; the best loss is ln 4, a unigram model's ln(vocabulary). images: the class is one
///   of `classes` coarse patterns, a little shifted, under three times as much noise.
///
/// The validation part is `validation_fraction` of the tokens or examples: the end of the data, of
/// images and documents a fixed random choice, since files come class by class.
///
/// Throws InputError with file and reason: nothing matches, unreadable, empty, not whole tokens, no
/// image or document, a part shorter than one window, nothing to be learned, a vocabulary or a
/// number of classes that is too small, a kind that the chain cannot take.
std::unique_ptr<Dataset> open_dataset(const config::DataSpec& spec, const ExampleShape& shape,
                                      std::int64_t seed);

/// How a step's batch is cut, over all replicas.
struct BatchShape {
  std::int64_t batch = 1;
  std::int64_t micro_batch = 1;  ///< divides batch
};

/// Micro-batch `index` (0..batch / micro_batch - 1, counted over all replicas) of `step` (from 0).
MicroBatch train_micro_batch(const Dataset& dataset, const BatchShape& shape, std::int64_t step,
                             std::int64_t index);

/// What a loss compares with: int64 classes, and where not all of them count also a float32 [],
/// what each that counts weighs in its micro-batch's loss: micro-batches by targets that count,
/// both of the whole step (or validation). A mean over micro-batches is then one over all such
/// targets, however they are spread.
using Target = std::vector<at::Tensor>;

/// The target alone of a micro-batch.
Target train_target(const Dataset& dataset, const BatchShape& shape, std::int64_t step,
                    std::int64_t index);

/// Micro-batch `index` of `micro_batches` of `examples` examples each: one validation.
MicroBatch validation_micro_batch(const Dataset& dataset, std::int64_t examples, std::int64_t index,
                                  std::int64_t micro_batches);
Target validation_target(const Dataset& dataset, std::int64_t examples, std::int64_t index,
                         std::int64_t micro_batches);

}  // namespace trireme::data
