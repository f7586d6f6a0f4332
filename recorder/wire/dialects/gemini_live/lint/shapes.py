"""The shapes of the messages of Gemini Live, as google-genai 3.6 declares them, where every field
may be missing.

Parts and what is around them are those of `generateContent`. An array in place of `voiceActivity`
is empty to the SDK.
"""

from __future__ import annotations

from recorder.lint.shape import Shapes
from recorder.wire.dialects.gemini.lint.shapes import SHAPES as OF_GEMINI

SHAPES = Shapes(
    """\
message: setupComplete:setup serverContent:live_content toolCall:live_call toolCallCancellation:cancellation
 usageMetadata:live_usage goAway:go_away sessionResumptionUpdate:resumption
 voiceActivityDetectionSignal:vad_signal voiceActivity:voice_activity|[any]
setup: sessionId:text voiceConsentSignature:consent
consent: signature:text
live_content: modelTurn:content turnComplete:truth interrupted:truth groundingMetadata:grounding_metadata
 generationComplete:truth inputTranscription:transcription outputTranscription:transcription
 urlContextMetadata:url_context_metadata turnCompleteReason:text waitingForInput:truth
 interimInputTranscription:transcription interactionStatus:text
live_call: functionCalls:[function_call]
cancellation: ids:[text]
live_usage: promptTokenCount:integer cachedContentTokenCount:integer responseTokenCount:integer
 toolUsePromptTokenCount:integer thoughtsTokenCount:integer totalTokenCount:integer
 promptTokensDetails:[modality_token_count] cacheTokensDetails:[modality_token_count]
 responseTokensDetails:[modality_token_count] toolUsePromptTokensDetails:[modality_token_count] trafficType:text
go_away: timeLeft:text
resumption: newHandle:text resumable:truth lastConsumedClientMessageIndex:integer
vad_signal: vadSignalType:text
voice_activity: type:text audioOffset:text
"""
    + OF_GEMINI.text
)
