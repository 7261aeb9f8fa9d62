#include "harness/run/encoded_batches.h"

#include "speech/pipeline/pipeline.h"
#include "speech/runtime/stages.h"

namespace rtfx {

CaseGroup first_group(const Config& config) {
  return {.rule = config.batches.front(), .dtype = config.dtypes.front(), .decoders = {}};
}

void for_each_encoded_batch(
    LoadedInputs& inputs, const CaseGroup& group, at::Device device,
    const std::function<void(const std::vector<size_t>& utterances, EncodedBatch encoded)>& work) {
  const Config& config = inputs.config();
  const LoadedDataset& dataset = inputs.datasets()[group.dataset];
  const auto model = inputs.model(group.model, device, group.dtype);
  // with a single pass, graphs are not worth recording
  RecordedEncoder encoder(model, /*graphs=*/false);
  const RegionClock clock(device);
  for (const auto& batch :
       make_batches(dataset.seconds, config.sort, group.rule, config.protocol.seed)) {
    check_interrupt();
    const Clips clips = clips_of(model->config, dataset, batch);
    RegionTimes times;
    work(batch, encode_batch(*model, encoder, clips, clock, times));
  }
}

}  // namespace rtfx
