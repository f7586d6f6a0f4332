"""The work of an agent in the formats of benchmarks: mooncake for load on servers, ATIF for
trajectories.

    turns       requests with their answers, and which of them goes on with which
    mooncake    lengths, gaps and shared prefixes, for AIPerf and Dynamo
    atif        steps of agents, for Harbor

Must not know: the command line, HTTP, databases other than through a reader of the log.
"""
