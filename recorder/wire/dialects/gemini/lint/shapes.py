"""The shapes of a chunk of Gemini, as google-genai 3.6 declares them, where every field may be
missing.

The fields of a part that the API's reference calls required must be there.
"""

from __future__ import annotations

from recorder.lint.shape import Shapes

SHAPES = Shapes("""\
generate_content_response: candidates:[candidate] createTime:text modelVersion:text promptFeedback:feedback
 responseId:text usageMetadata:usage_metadata modelStatus:model_status
candidate: content:content citationMetadata:citation_metadata finishMessage:text tokenCount:integer finishReason:text
 groundingMetadata:grounding_metadata avgLogprobs:numeric index:integer logprobsResult:logprobs_result
 safetyRatings:[safety_rating] urlContextMetadata:url_context_metadata continuationToken:base64
content: parts:[part] role:text
part: mediaResolution:part_media_resolution codeExecutionResult:code_execution_result executableCode:executable_code
 fileData:file_data functionCall:function_call functionResponse:function_response inlineData:blob text:text
 thought:truth thoughtSignature:base64 videoMetadata:video_metadata toolCall:tool_call toolResponse:tool_response
 partMetadata:object audioTranscription:transcription mediaProcessing:text speechMetadata:speech_metadata
 documentMetadata:document_metadata spreadsheetMetadata:spreadsheet_metadata audioMetadata:audio_metadata
part_media_resolution: level:text numTokens:integer
code_execution_result: outcome!:text output:text id:text
executable_code: code!:text language!:text id:text
file_data: displayName:text fileUri!:text mimeType:text
function_call: id:text args:object name:text partialArgs:[partial_arg] willContinue:truth
partial_arg: boolValue:truth jsonPath:text nullValue:text numberValue:numeric stringValue:text willContinue:truth
function_response: willContinue:truth scheduling:text parts:[function_response_part] id:text name:text response:object
function_response_part: inlineData:function_response_blob fileData:function_response_file_data mediaProcessing:text
 mediaResolution:part_media_resolution videoMetadata:video_metadata documentMetadata:document_metadata
 spreadsheetMetadata:spreadsheet_metadata audioMetadata:audio_metadata
function_response_blob: mimeType:text data:base64 displayName:text
function_response_file_data: fileUri:text mimeType:text displayName:text
video_metadata: endOffset:text fps:numeric startOffset:text contentLayers:[text]
document_metadata: startPage:integer endPage:integer contentLayers:[text]
spreadsheet_metadata: visibleCells:text sheetIndex:integer contentLayers:[text]
audio_metadata: startOffset:text endOffset:text
blob: data!:base64 displayName:text mimeType!:text
tool_call: id:text toolType:text args:object
tool_response: id:text toolType:text response:object
transcription: text:text finished:truth languageCode:text speakerLabel:text words:[word_info] startOffset:text
 endOffset:text
word_info: word:text startOffset:text endOffset:text
speech_metadata: speaker:text style:text
citation_metadata: citations:[citation]
citation: endIndex:integer license:text publicationDate:google_type_date startIndex:integer title:text uri:text
google_type_date: day:integer month:integer year:integer
grounding_metadata: imageSearchQueries:[text] groundingChunks:[grounding_chunk] groundingSupports:[grounding_support]
 retrievalMetadata:retrieval_metadata searchEntryPoint:search_entry_point webSearchQueries:[text]
 googleMapsWidgetContextToken:text retrievalQueries:[text] sourceFlaggingUris:[grounding_metadata_source_flagging_uri]
grounding_chunk: image:grounding_chunk_image maps:grounding_chunk_maps
 retrievedContext:grounding_chunk_retrieved_context web:grounding_chunk_web
grounding_chunk_image: sourceUri:text imageUri:text title:text domain:text
grounding_chunk_maps: placeAnswerSources:grounding_chunk_maps_place_answer_sources placeId:text text:text title:text
 uri:text route:grounding_chunk_maps_route
grounding_chunk_maps_place_answer_sources: reviewSnippet:[grounding_chunk_maps_place_answer_sources_review_snippet]
 flagContentUri:text reviewSnippets:[grounding_chunk_maps_place_answer_sources_review_snippet]
grounding_chunk_maps_place_answer_sources_review_snippet:
 authorAttribution:grounding_chunk_maps_place_answer_sources_author_attribution flagContentUri:text googleMapsUri:text
 relativePublishTimeDescription:text review:text reviewId:text title:text
grounding_chunk_maps_place_answer_sources_author_attribution: displayName:text photoUri:text uri:text
grounding_chunk_maps_route: distanceMeters:integer duration:text encodedPolyline:text
grounding_chunk_retrieved_context: documentName:text ragChunk:rag_chunk text:text title:text uri:text
 customMetadata:[grounding_chunk_custom_metadata] fileSearchStore:text pageNumber:integer mediaId:text
rag_chunk: pageSpan:rag_chunk_page_span text:text chunkId:text fileId:text
rag_chunk_page_span: firstPage:integer lastPage:integer
grounding_chunk_custom_metadata: key:text numericValue:numeric stringListValue:grounding_chunk_string_list
 stringValue:text
grounding_chunk_string_list: values:[text]
grounding_chunk_web: domain:text title:text uri:text
grounding_support: confidenceScores:[numeric] groundingChunkIndices:[integer] segment:segment renderedParts:[integer]
segment: startIndex:integer endIndex:integer partIndex:integer text:text
retrieval_metadata: googleSearchDynamicRetrievalScore:numeric
search_entry_point: renderedContent:text sdkBlob:base64
grounding_metadata_source_flagging_uri: flagContentUri:text sourceId:text
logprobs_result: chosenCandidates:[logprobs_result_candidate] topCandidates:[logprobs_result_top_candidates]
 logProbabilitySum:numeric
logprobs_result_candidate: logProbability:numeric token:text tokenId:integer
logprobs_result_top_candidates: candidates:[logprobs_result_candidate]
safety_rating: blocked:truth category:text overwrittenThreshold:text probability:text probabilityScore:numeric
 severity:text severityScore:numeric
url_context_metadata: urlMetadata:[url_metadata]
url_metadata: retrievedUrl:text urlRetrievalStatus:text
feedback: blockReason:text blockReasonMessage:text safetyRatings:[safety_rating]
usage_metadata: cacheTokensDetails:[modality_token_count] cachedContentTokenCount:integer candidatesTokenCount:integer
 candidatesTokensDetails:[modality_token_count] promptTokenCount:integer promptTokensDetails:[modality_token_count]
 thoughtsTokenCount:integer toolUsePromptTokenCount:integer toolUsePromptTokensDetails:[modality_token_count]
 totalTokenCount:integer trafficType:text
modality_token_count: modality:text tokenCount:integer
model_status: message:text modelStage:text retirementTime:text
""")
