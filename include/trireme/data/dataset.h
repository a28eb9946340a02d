// Data sets: any micro-batch of any step is a function of (job, seed, step, micro-batch), so that
// each rank loads only its own part and a resumed run continues with the same data.
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

/// Input and target shapes of the chain, named as in model::ChainModel.
struct ExampleShape {
  std::string input;         ///< "tokens" | "vectors" | "images"
  std::int64_t inputs = 0;   ///< tokens: context; vectors: width; images: values per image
  std::int64_t classes = 0;  ///< size of the vocabulary, or number of classes
  std::int64_t channels = 0, height = 0, width = 0;  ///< images only
  bool takes_masks = false;                          ///< targets may be kMasked
  bool isolates_documents = false;                   ///< documents of a row may be kept apart
};

/// A masked target, ignored by the loss (LibTorch's default `ignore_index`).
inline constexpr std::int64_t kMasked = -100;

/// On the CPU. tokens: both int64 [B, T], the target shifted by one; vectors: float [B, inputs] and
/// int64 [B]; images: float [B, channels, height, width] and int64 [B]. Masked targets of documents
/// are kMasked.
struct MicroBatch {
  at::Tensor input, target;
};

/// Loss of a unigram model on the validation part, in nats per token.
struct UnigramLoss {
  double entropy = 0;        ///< with the validation part's own counts
  double cross_entropy = 0;  ///< with the train part's counts plus one
};

/// How many tokens each document of a micro-batch has, row after row, the rest of a row counting as
/// one more, so that together they fill the rows; empty if a row is one text.
using DocumentLengths = std::vector<std::int64_t>;

/// Loading is const and thread-safe. It allocates only the two tensors that it returns.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Examples per epoch of training, at least 1.
  virtual std::int64_t train_examples() const = 0;
  /// Number of non-overlapping examples of the validation part; 0: there is no validation part.
  virtual std::int64_t validation_examples() const = 0;

  /// Examples first..first+count-1 of the endless training sequence. Throws InputError for a token
  /// that is not in the vocabulary, and for an image that cannot be read.
  virtual MicroBatch train(std::int64_t first, std::int64_t count) const = 0;

  /// Examples first..first+count-1 of `total` that are spread evenly over the validation part, the
  /// same in every call; they overlap or repeat if `total` is over validation_examples().
  virtual MicroBatch validation(std::int64_t first, std::int64_t count,
                                std::int64_t total) const = 0;

  /// The targets of the same examples; does not read images.
  virtual at::Tensor train_target(std::int64_t first, std::int64_t count) const {
    return train(first, count).target;
  }
  virtual at::Tensor validation_target(std::int64_t first, std::int64_t count,
                                       std::int64_t total) const {
    return validation(first, count, total).target;
  }

  /// Number of unmasked targets of these examples, at least one per example; nothing if the data
  /// set never masks.
  virtual std::optional<std::int64_t> train_counted(std::int64_t, std::int64_t) const {
    return std::nullopt;
  }
  virtual std::optional<std::int64_t> validation_counted(std::int64_t, std::int64_t,
                                                         std::int64_t) const {
    return std::nullopt;
  }

  /// The isolated documents of these examples' inputs; reads no tokens.
  virtual DocumentLengths train_documents(std::int64_t, std::int64_t) const { return {}; }
  virtual DocumentLengths validation_documents(std::int64_t, std::int64_t, std::int64_t) const {
    return {};
  }

  /// Tokens of these examples' inputs, without padding; nothing if rows have none.
  virtual std::optional<std::int64_t> train_tokens(std::int64_t, std::int64_t) const {
    return std::nullopt;
  }

  /// Nothing if there is no validation part or no tokens. Of a part with more than 2^26 tokens,
  /// evenly spaced stretches are counted.
  virtual std::optional<UnigramLoss> unigram_loss() const = 0;

  /// Equal for equal data, to compare ranks on different hosts, and a run with the checkpoint that
  /// it resumes from. Large files, except documents, are hashed by size and evenly spaced samples;
  /// many images by name and size, and by evenly spaced ones of them.
  virtual std::string digest() const = 0;

  /// Human-readable: "text, 14 files: 301234 tokens to train on, 15854 for validation".
  virtual std::string describe() const = 0;
};

/// Opens the data set that `spec` describes:
///
/// - text: the files' bytes are the tokens. Patterns are expanded; if a file has several names
///   (symbolic links) its own name counts, else the first; files are concatenated in order of name,
///   each ending with a newline (added if missing). Held in memory.
/// - tokens: the same, but raw little-endian uint16 or uint32, memory-mapped, and checked for
///   tokens that are not in the vocabulary; nothing is added between files.
/// - documents: files of texts of any length that mark the tokens to be learned (format:
///   docs/models.md), memory-mapped. An example of T inputs holds the first T + 1 tokens of one
///   document, or with `packed` several whole documents. Targets that are not to be learned, a
///   document's first token, and padding are masked. Documents in which nothing is to be learned
///   are left out. Where they are isolated, rows say how long each of theirs is.
/// - images: PNM (P5, P6), PNG and JPEG files. An image's class is its folder's name; the sorted
///   names are classes 0, 1, ... Images are resized to just cover the chain's size and cropped at
///   the centre; values are 0..1 less the mean of their channel over (some of) the train part. Read
///   on demand. Or packed files, memory-mapped (format: docs/models.md).
/// - synthetic: nothing is read. vectors: the class is the largest of `classes` noisy linear forms
///   of the first inputs. tokens: sequences in which every token has four equally likely
///   successors; the best loss is ln 4, a unigram model's ln(vocabulary). images: the class is one
///   of `classes` coarse patterns, a little shifted, under three times as much noise.
///
/// The validation part is `validation_fraction` of the tokens or examples: the end of the data, or
/// for images and documents a fixed random choice, since files are sorted by class.
///
/// Throws InputError with file and reason: no match, unreadable, empty, not whole tokens, no image
/// or document, a part shorter than one window, nothing to be learned, a vocabulary or number of
/// classes that is too small, a kind that the chain cannot take.
std::unique_ptr<Dataset> open_dataset(const config::DataSpec& spec, const ExampleShape& shape,
                                      std::int64_t seed);

/// How a step's batch is split into micro-batches, over all replicas.
struct BatchShape {
  std::int64_t batch = 1;
  std::int64_t micro_batch = 1;  ///< divides batch
};

/// Micro-batch `index` (0..batch / micro_batch - 1, counted over all replicas) of `step` (from 0).
MicroBatch train_micro_batch(const Dataset& dataset, const BatchShape& shape, std::int64_t step,
                             std::int64_t index);

/// Target of a loss: int64 classes, and if some are masked also a float32 [], the weight of each
/// unmasked target's loss in its micro-batch: micro-batches / unmasked targets, both counted over
/// the whole step (or validation). A mean over micro-batches is then the mean over all unmasked
/// targets, however they are distributed.
using Target = std::vector<at::Tensor>;

/// Only the target of a micro-batch.
Target train_target(const Dataset& dataset, const BatchShape& shape, std::int64_t step,
                    std::int64_t index);

/// Only the lengths of a micro-batch's isolated documents.
DocumentLengths train_documents(const Dataset& dataset, const BatchShape& shape, std::int64_t step,
                                std::int64_t index);

/// Micro-batch `index` of one validation, which has `micro_batches` of `examples` examples each.
MicroBatch validation_micro_batch(const Dataset& dataset, std::int64_t examples, std::int64_t index,
                                  std::int64_t micro_batches);
Target validation_target(const Dataset& dataset, std::int64_t examples, std::int64_t index,
                         std::int64_t micro_batches);
DocumentLengths validation_documents(const Dataset& dataset, std::int64_t examples,
                                     std::int64_t index, std::int64_t micro_batches);

}  // namespace trireme::data
