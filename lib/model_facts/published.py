"""Where published models of 2024 to 2026 keep position.

Defaults of the configuration classes of transformers 5.24.0, or a released checkpoint's
values; `tests/test_model_facts_positions.py` reads every field from there.
"""

from lib.model_facts.positions import PositionFacts

POSITIONS = (
    PositionFacts("GLM-4-9B", "2024-06", "GlmConfig", 128, 64, 1e4, layers=40),
    PositionFacts(
        *("Gemma 2 2B", "2024-07", "Gemma2Config", 256, 256, 1e4),
        layers=26,
        windowed=13,
        window=4_096,
    ),
    PositionFacts(
        *("Qwen2-VL-72B", "2024-09", "Qwen2VLTextConfig", 128, 128, 1e6),
        layers=80,
        sections=(16, 24, 24),
    ),
    PositionFacts(
        *("Command R7B", "2024-12", "Cohere2Config", 128, 128, 5e4),
        layers=32,
        checkpoint=True,
        windowed=24,
        window=4_096,
        unturned=8,
    ),
    PositionFacts(
        *("DeepSeek-V3", "2024-12", "DeepseekV3Config", 192, 64, 1e4),
        layers=61,
        decoupled=True,
    ),
    PositionFacts(
        *("ModernBERT-base", "2024-12", "ModernBertConfig", 64, 64, 160_000.0),
        layers=22,
        windowed=14,
        window=128,
        local_base=1e4,
    ),
    PositionFacts(
        *("Gemma 3 27B", "2025-03", "Gemma3TextConfig", 128, 128, 1e6),
        layers=62,
        checkpoint=True,
        windowed=52,
        window=1_024,
        local_base=1e4,
    ),
    PositionFacts(
        *("Llama 4 Scout", "2025-04", "Llama4TextConfig", 128, 128, 5e5),
        layers=48,
        windowed=36,
        window=8_192,
        chunked=True,
        unturned=12,
        temperature=0.1,
        temperature_length=8_192,
    ),
    PositionFacts(
        *("SmolLM3-3B", "2025-07", "SmolLM3Config", 128, 128, 2e6),
        layers=36,
        unturned=9,
    ),
    PositionFacts(
        *("gpt-oss-120b", "2025-08", "GptOssConfig", 64, 64, 150_000.0),
        layers=36,
        windowed=18,
        window=128,
    ),
    PositionFacts(
        *("Qwen3-VL-8B", "2025-09", "Qwen3VLTextConfig", 128, 128, 5e6),
        layers=36,
        checkpoint=True,
        sections=(24, 20, 20),
        interleaved=True,
    ),
    PositionFacts(
        *("Kimi Linear", "2025-10", "KimiLinearConfig", 192, 0, None),
        layers=27,
        checkpoint=True,
        unturned=7,
        recurrent=20,
        decoupled=True,
    ),
    PositionFacts(
        *("MiMo-V2-Flash", "2025-12", "MiMoV2FlashConfig", 192, 64, 5e6),
        layers=48,
        windowed=39,
        window=129,
        local_base=1e4,
    ),
    PositionFacts(
        *("Ministral 3 8B", "2025-12", "Ministral3Config", 128, 128, 1e6),
        layers=34,
        temperature=0.1,
        temperature_length=16_384,
    ),
    PositionFacts(
        *("Qwen3.5", "2026-02", "Qwen3_5TextConfig", 256, 64, 1e4),
        layers=32,
        recurrent=24,
        sections=(11, 11, 10),
        interleaved=True,
    ),
    PositionFacts(
        *("Mistral Small 4", "2026-03", "Mistral4Config", 128, 64, 1e4),
        layers=36,
        decoupled=True,
        temperature=0.1,
        temperature_length=8_192,
    ),
    PositionFacts(
        *("Gemma 4 31B", "2026-04", "Gemma4TextConfig", 512, 128, 1e6),
        layers=60,
        checkpoint=True,
        windowed=50,
        window=1_024,
        local_base=1e4,
        proportional=True,
    ),
)
