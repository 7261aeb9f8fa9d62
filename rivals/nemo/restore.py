"""Opens NeMo's models from files without the settings that only training needs."""

import hashlib
from datetime import datetime, timezone

import torch
from nemo.collections.asr.models import ASRModel
from nvrtc_log import keep_out_of_constants
from omegaconf import open_dict

keep_out_of_constants()


def restored(path, device, dtype):
    """Restores a model. Missing settings for training are added as empty ones, since NeMo asks for them."""
    config = ASRModel.restore_from(path, return_config=True)
    with open_dict(config):
        for name in ("train_ds", "validation_ds", "test_ds"):
            config.setdefault(name, {})
    model = ASRModel.restore_from(path, override_config_path=config, map_location=device)
    return model.to(getattr(torch, dtype)).eval()


def about(path, device):
    """Returns the origin of a measurement: SHA-256 of the checkpoint, UUID of the GPU, and the date in UTC.

    The UUID is needed, since GPUs of one name in a host differ in speed. A CPU has no UUID."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    found = {"sha256": digest, "date": datetime.now(timezone.utc).isoformat(timespec="seconds")}
    if device.startswith("cuda"):
        found["gpu"] = str(torch.cuda.get_device_properties(device).uuid)
    return found
