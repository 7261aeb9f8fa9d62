# NeMo's encoder of the 0.6B shape, eager, bf16, random weights: seconds of a pass over utterances of test-other's lengths.
import gzip, json, sys, time
import torch
import nemo
from nemo.collections.asr.modules import ConformerEncoder
L = sorted((int(l.split('\t')[1]) for l in gzip.open('../test_other.tsv.gz', 'rt')), reverse=True)
torch.manual_seed(1)
for layers in (24, 42):
    enc = ConformerEncoder(feat_in=80, n_layers=layers, d_model=1024, subsampling='dw_striding', subsampling_factor=8,
                           subsampling_conv_channels=256, ff_expansion_factor=4, self_attention_model='rel_pos', n_heads=8,
                           conv_kernel_size=9, dropout=0.0, dropout_emb=0.0, dropout_att=0.0, dropout_pre_encoder=0.0).cuda().to(torch.bfloat16).eval()
    for batch in ((32, 64, 128) if layers == 24 else (64,)):
        data = []
        for i in range(0, len(L), batch):
            n = [l // 160 for l in L[i:i + batch]]
            data.append((torch.randn(len(n), 80, n[0], device='cuda', dtype=torch.bfloat16), torch.tensor(n, device='cuda')))
        times = []
        with torch.inference_mode():
            for r in range(4):
                torch.cuda.synchronize(); t = time.perf_counter()
                for x, n in data: enc(audio_signal=x, length=n)
                torch.cuda.synchronize(); times.append(time.perf_counter() - t)
        print(json.dumps({'nemo': nemo.__version__, 'layers': layers, 'batch': batch, 'seconds': times[1:], 'audio_seconds': sum(L) / 16000, 'rtfx': [sum(L) / 16000 / t for t in times[1:]]}), flush=True)
        del data
    del enc
