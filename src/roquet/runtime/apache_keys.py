"""Configuration keys that Apache RocketMQ 5.5.0 knows and Roquet does not act on.

They are no typing errors, so an existing broker.conf gives an info line for each and no warning, and
`mqadmin getBrokerConfig` still finds them, with Apache's default (a key without `=` has none and is not
shown). Keys that would change what is stored, promised or allowed are different: a value that asks for
something we do not have is REFUSED, since a broker that quietly does less is worse than none.
Reference: the fields of BrokerConfig, NettyServerConfig, NettyClientConfig, MessageStoreConfig,
AuthConfig and NamesrvConfig in the jars of 5.5.0.
"""

from __future__ import annotations

from typing import NamedTuple


class Passive(NamedTuple):
    """A key that is accepted without effect: why, and Apache's default, which is shown if there is one."""

    reason: str
    default: str
    shown: bool


class Refused(NamedTuple):
    """A key of which only one value is supported, and what is missing for the others."""

    accepted: str
    missing: str


_BROKER_GROUPS = {
    "one event loop does the work: there are no thread pools and no queues before them": """
        brokerFastFailureEnable=true waitTimeMillsInAdminBrokerQueue=5000
        waitTimeMillsInHeartbeatQueue=31000 waitTimeMillsInLitePullQueue=5000
        waitTimeMillsInPullQueue=5000 waitTimeMillsInSendQueue=200
        ackMessageThreadPoolNums=16 ackThreadPoolQueueCapacity=100000 adminBrokerThreadPoolNums=16
        adminBrokerThreadPoolQueueCapacity=10000 appendAckAsync=false appendCkAsync=false
        asyncSendEnable=true batchDispatchRequestThreadPoolNums=16 clientCallbackExecutorThreads=2
        clientManageThreadPoolNums=32 clientManagerThreadPoolQueueCapacity=1000000
        clientWorkerThreads=4 consumerManageThreadPoolNums=32
        consumerManagerThreadPoolQueueCapacity=1000000 dispatchCqCacheNum=4096 dispatchCqThreads=10
        dispatchFromSenderThread=false enableAcceleratedRecovery=false enableAsyncReput=true
        enableBatchPush=false enableBuildConsumeQueueConcurrently=false
        enableFastChannelEventProcess=false endTransactionPoolQueueCapacity=100000
        endTransactionThreadPoolNums=12 heartbeatThreadPoolNums=2
        heartbeatThreadPoolQueueCapacity=50000 highSpeedMode=false litePullMessageThreadPoolNums=20
        litePullThreadPoolQueueCapacity=100000 loadBalanceProcessorThreadPoolNums=32
        loadBalanceThreadPoolQueueCapacity=100000 processReplyMessageThreadPoolNums=20
        pullMessageThreadPoolNums=20 pullThreadPoolQueueCapacity=100000
        putMessageFutureThreadPoolNums=2 putMsgIndexHightWater=600000 putThreadPoolQueueCapacity=10000
        queryMessageThreadPoolNums=10 queryThreadPoolQueueCapacity=20000 recoverConcurrently=false
        recoverThreadPoolNums=32 replyThreadPoolQueueCapacity=10000 sendMessageThreadPoolNums=2
        sendThreadPoolQueueCapacity=10000 serverCallbackExecutorThreads=0 serverSelectorThreads=3
        serverWorkerThreads=8 timerGetMessageThreadNum=3 timerPutMessageThreadNum=3
        timerReputServiceCorePoolSize=6 timerReputServiceMaxPoolSize=6
        timerReputServiceQueueCapacity=10000 topicQueueLockNum=32 transactionCheckRocksdbCoreThreads=2
        transactionCheckRocksdbMaxThreads=5 transactionCheckRocksdbQueueCapacity=2000
    """,
    "it always behaves as with the default": """
        clearRetryTopicWhenDeleteTopic=true enableCreateSysGroup=true enableDetailStat=true
        forceRegister=true maxMsgsNumBatch=64 realTimeNotifyConsumerChange=true
        subscriptionExpiredTimeout=600000 updateNameServerAddrPeriod=120000
        validateSystemTopicWhenUpdateTopic=true
    """,
    "connections are handled by the event loop and not by Netty": """
        channelNotActiveInterval=60000 clientAsyncSemaphoreValue=65535
        clientChannelMaxIdleTimeSeconds=120 clientCloseSocketIfTimeout=true
        clientOnewaySemaphoreValue=65535 clientPooledByteBufAllocatorEnable=false
        clientSocketRcvBufSize=0 clientSocketSndBufSize=0 disableCallbackExecutor=false
        disableNettyWorkerGroup=false enableNetWorkFlowControl=false enableReconnectForGoAway=true
        enableShutdownGracefully=false isScanAvailableNameSrv=true maxReconnectIntervalTimeSeconds=60
        serverAsyncSemaphoreValue=64 serverNettyWorkerGroupEnable=true serverOnewaySemaphoreValue=256
        serverPooledByteBufAllocatorEnable=true serverSocketBacklog=1024 serverSocketRcvBufSize=0
        serverSocketSndBufSize=0 shutdownWaitTimeSeconds=30 socksProxyConfig={} transferMsgByHeap=true
        useEpollNativeSelector=false writeBufferHighWaterMark=0 writeBufferLowWaterMark=0
    """,
    "the log is written with plain writes and only mapped for reading": """
        cleanSwapedMapInterval=300000 commitCommitLogLeastPages=4 commitCommitLogThoroughInterval=200
        commitIntervalCommitLog=200 commitLogForceSwapMapInterval=43200000
        commitLogSwapMapInterval=3600000 commitLogSwapMapReserveFileNum=100
        correctLogicMinOffsetForceInterval=300000 correctLogicMinOffsetSleepInterval=1
        debugLockEnable=false deleteCommitLogFilesInterval=100 deleteConsumeQueueFilesInterval=100
        destroyMapedFileIntervalForcibly=120000 enableRunningFlagsInFlush=false
        fastFailIfNoBufferInStorePool=false flushCommitLogTimed=true flushConsumeQueueLeastPages=2
        flushLeastPagesWhenWarmMapedFile=4096 logicQueueForceSwapMapInterval=43200000
        logicQueueSwapMapInterval=3600000 logicQueueSwapMapReserveFileNum=20
        logicalDiskSpaceCleanForciblyThreshold=0.8 mappedFileSwapEnable=true
        maxAsyncPutMessageRequests=5000 maxBatchDeleteFilesNum=50 osPageCacheBusyTimeOutMills=1000
        putConsumeQueueDataByFileChannel=true putMessageTimeout=8000 readUnCommitted=false
        redeleteHangedFileInterval=120000 sharedByteBufferNum=16
        spinLockCollisionRetreatOptimalDegree=1000 transientStorePoolEnable=false
        transientStorePoolSize=5 travelCqFileNumWhenGetMessage=1 useABSLock=false
        useReentrantLockWhenPutMessage=true wakeCommitWhenPutMessage=true
        wakeFlushWhenPutMessage=false warmMapedFileEnable=false writeWithoutMmap=false
    """,
    "registration does not need it": """
        cleanOfflineBrokerInterval=30000 compressedRegister=false enableSingleTopicRegister=false
        enableSplitMetadata=true fetchNamesrvAddrInterval=10000
        splitMetadataSize=2000
    """,
    "reading of old messages never blocks other readers": """
        accessMessageInMemoryHotRatio=26 cgColdReadThreshold=3145728 coldCtrStrategyEnable=false
        coldDataFlowControlEnable=false coldDataScanEnable=false dataReadAheadEnable=true
        globalColdReadThreshold=104857600 usePIDColdCtrStrategy=true
    """,
    "not supported yet: these statistics and metrics": """
        accountStatsEnable=true accountStatsPrintZeroValues=true autoDeleteUnusedStats=true
        commercialBaseCount=1 commercialSizePerMsg=4096 enableConnectionMetrics=true
        enableLagAndDlqMetrics=true enableMessageStoreMetrics=true enableRemotingMetrics=true
        enableRequestMetrics=true enableScheduleMessageStats=true enableStatsMetrics=true
        enableTransactionMetrics=true estimateAccumulation=true isolateLogEnable=false
        maxStatsIdleTimeInMinutes=-1 metricGrpcExporterIntervalInMills=60000
        metricGrpcExporterTimeOutInMills=3000 metricLoggingExporterIntervalInMills=10000
        metricsExportBatchMaxDataPoints=1000 metricsExporterType=DISABLE metricsGrpcExporterHeader=
        metricsGrpcExporterTarget= metricsInDelta=false metricsLabel=
        metricsOtelCardinalityLimit=50000 metricsPromExporterHost= metricsPromExporterPort=5557
        printChannelGroups=false printChannelGroupsMinNum=5
    """,
    "not supported yet: replication": """
        asyncLearner=false brokerElectionPriority=2147483647 brokerHeartbeatInterval=1000
        brokerNotActiveTimeoutMillis=10000 checkSyncStateSetPeriod=5000 compatibleWithOldNameSrv=true
        controllerAddr= controllerHeartBeatTimeoutMills=10000 dLegerGroup dLegerPeers dLegerSelfId
        diskFallRecorded=true enableAutoInSyncReplicas=false forwardTimeout=3000
        haFlowControlEnable=false haHousekeepingInterval=20000 haMasterAddress
        haMaxGapNotInSync=268435456 haMaxTimeSlaveNotCatchup=15000 haSendHeartbeatInterval=5000
        haTransferBatchSize=32768 lockInStrictMode=false maxChecksumRange=1073741824
        maxHaTransferByteInSecond=104857600 maxSlaveResendLength=268435456 offsetCheckInSlave=false
        preferredLeaderId replicasPerDiskPartition=1 sendHeartbeatTimeoutMillis=1000
        skipPreOnline=false slaveReadEnable=false slaveTimeout=3000 storePathBrokerIdentity
        storePathDLedgerCommitLog storePathEpochFile syncBrokerMemberGroupPeriod=1000
        syncBrokerMetadataPeriod=5000 syncControllerMetadataPeriod=10000 syncFromLastFile=false
        syncMasterFlushOffsetWhenStartup=false totalReplicas=1
    """,
    "the end of a transaction is written together with its message": """
        transWriteOriginTransHalfEnable=true transactionMetricFlushInterval=10000
        transactionOpBatchInterval=3000 transactionOpMsgMaxSize=4096
        waitTimeMillsInTransactionQueue=3000
    """,
    "the timer has its own way: no threads, no snapshots; it retries until it succeeds": """
        timerCheckMetricsWhen=05 timerColdDataCheckIntervalMs=60000
        timerCongestNumEachSlot=2147483647 timerEnableCheckMetrics=true timerEnableDisruptor=false
        timerEnableRetryUntilSuccess=false timerInterceptDelayLevel=false
        timerMetricSmallThreshold=1000000 timerProgressLogIntervalMs=10000
        timerRecallToTimeWheelEnable=true timerRecallToTimelineEnable=true
        timerSkipUnknownError=false timerStopDequeue=false timerStopEnqueue=false
        timerWarmEnable=false timerWheelSnapshotFlush=false timerWheelSnapshotIntervalMs=10000
    """,
    "not supported yet: pop consumption and assignment by the broker": """
        broadcastOffsetExpireMaxSecond=300
        broadcastOffsetExpireSecond=120 defaultMessageRequestMode=PULL defaultPopShareQueueNum=-1
        enableBroadcastOffsetStore=true enableNotifyAfterPopOrderLockRelease=true
        enableNotifyBeforePopCalculateLag=true enablePopBatchAck=false enablePopBufferMerge=false
        enablePopLog=false enablePopMessageThreshold=false enablePopMetrics=true
        enableRetryTopicV2=false enableSkipLongAwaitingAck=false initPopOffsetByCheckMsgInMem=true
        loadBalancePollNameServerInterval=30000 maxMessageFilterNumForNotification=64
        maxPopPollingSize=100000 popCkMaxBufferSize=200000 popCkOffsetMaxQueueSize=20000
        popCkStayBufferTime=10000 popCkStayBufferTimeOut=3000 popConsumerFSServiceInit=true
        popConsumerKVServiceLog=false popFromRetryProbability=20 popFromRetryProbabilityForPriority=0
        popInflightMessageThreshold=10000 popLongPollingForceNotifyInterval=800
        popPollingMapExpireTimeSeconds=600 popPollingMapSize=100000 popPollingSize=1024
        popResponseReturnActualRetryTopic=false popReviveConcurrency=32 popReviveMaxAttemptTimes=16
        popReviveMaxReturnSizePerRead=16384 popReviveSkipIfGroupAbsent=true priorityOrderAsc=true
        retrieveMessageFromPopRetryTopicV1=true reviveAckWaitMs=180000
        reviveInterval=1000 reviveMaxSlow=3 reviveQueueNum=8 reviveScanTime=10000
        serverLoadBalancerEnable=true skipWhenCKRePutReachMaxTimes=false
        useMessageFilterForNotification=true useSeparateRetryQueue=false waitTimeMillsInAckQueue=3000
    """,
    "not supported yet: lite topics": """
        enableLiteEventMode=true enableLitePopLog=false enableLmqQuota=false enableLmqStats=false
        liteEventCheckInterval=10000 liteEventFullDispatchDelayTime=10000
        liteEventFullDispatchDelayTimeForWildcardGroup=10000 liteLagCountMetricsEnable=false
        liteLagLatencyCollectEnable=false liteLagLatencyMetricsEnable=false liteLagLatencyTopK=50
        liteSubscriptionCheckInterval=120000 liteSubscriptionCheckTimeoutMills=180000
        liteTtlCheckInterval=120000 maxClientEventCount=100 maxLiteSubscriptionCount=100000
        maxLmqConsumeQueueNum=20000 minLiteTTl=900000
    """,
    "not supported yet: compaction topics and batch queues": """
        compactionCqMappedFileSize=10485760
        compactionMappedFileSize=104857600 compactionScheduleInternal=900000 compactionThreadNum=6
        enableCompaction=true
        mapperFileSizeBatchConsumeQueue=13800000 maxOffsetMapSize=104857600 sampleCountThreshold=5000
        sampleSteps=32 searchBcqByCacheEnable=true
    """,
    "the length of a bit map follows from maxErrorRateOfBloomFilter and expectConsumerNumUseFilter": """
        bitMapLengthConsumeQueueExt=64
    """,
    "there is no RocksDB in this store": """
        bottomMostCompressionTypeForConsumeQueueStore=zstd cleanRocksDBDirtyCQIntervalMin=60
        combineAssignOffsetCQType=default combineCQEnableCheckSelf=false
        combineCQLoadingCQTypes=default;defaultRocksDB combineCQMaxExtraSearchCommitLogFiles=3
        combineCQPreferCQType=default enableRocksDBLog=false iteratorWhenUseRocksdbConsumeQueue=true
        maxRocksDBIndexQueryDays=7 memTableFlushIntervalMs=3600000 realTimePersistRocksDBConfig=true
        rocksdbCompressionType=lz4 rocksdbFlushWalFrequency=1024
        rocksdbWalFileRollingThreshold=1073741824 statRocksDBCQIntervalSec=10
        timerRocksDBPrecisionMs=1000 timerRocksDBRollIntervalHours=1 timerRocksDBRollMaxTps=8000.0
        timerRocksDBRollRangeHours=2 timerRocksDBStopScan=false timerRocksDBTimeExpiredMaxTps=200000.0
        useSeparateStorePathForRocksdbCQ=false
    """,
    "not supported yet: access control": """
        aclCacheExpiredSecond=600 aclCacheMaxNum=1000 aclCacheRefreshSecond=60 authConfigPath
        authenticationMetadataProvider authenticationProvider authenticationStrategy
        authenticationWhitelist authorizationMetadataProvider authorizationProvider
        authorizationStrategy authorizationWhitelist clusterName configName initAuthenticationUser
        innerClientAuthenticationCredentials statefulAuthenticationCacheExpiredSecond=60
        statefulAuthenticationCacheMaxNum=10000 statefulAuthorizationCacheExpiredSecond=60
        statefulAuthorizationCacheMaxNum=10000 userCacheExpiredSecond=600 userCacheMaxNum=1000
        userCacheRefreshSecond=60
    """,
    "has no counterpart in Roquet": """
        autoMessageVersionOnTopicLen=true checkCommitLogOffsetOnRecover=false
        checkTransactionMessageEnable commitLogRecoverMaxNum=10
        configBlackList=configBlackList;brokerConfigPath defaultQueryMaxNum=32
        disappearTimeAfterStart=-1 enableCleanExpiredOffset=false
        enableLogConsumeQueueRepeatedlyBuildWhenRecover=false
        enableRegisterProducer=true enableScheduleAsyncDeliver=false filterServerNums
        flushConsumerOffsetHistoryInterval=60000 forceVerifyPropCRC=false haSlaveFallbehindMax
        indexFileReadEnable=true indexFileWriteEnable=true maxConsumeQueueScan=20000
        maxRecoveryCommitlogFiles=30 maxTopicLength=127 persistConsumerOffsetIncrementally=false
        pullBatchMaxMessageCount=160 recheckReputOffsetFromCq=false rejectPullConsumerEnable=false
        rocketmqHome= scheduleAsyncDeliverMaxPendingLimit=2000
        scheduleAsyncDeliverMaxResendNum2Blocked=3 useStaticSubscription=false
    """,
}

_NAMES_GROUPS = {
    "one event loop does the work: there are no thread pools and no queues before them": """
        clientRequestThreadPoolNums=8 clientRequestThreadPoolQueueCapacity=50000
        defaultThreadPoolNums=16 defaultThreadPoolQueueCapacity=10000 serverCallbackExecutorThreads=0
        serverSelectorThreads=3 serverWorkerThreads=8
    """,
    "connections are handled by the event loop and not by Netty": """
        enableShutdownGracefully=false serverAsyncSemaphoreValue=64 serverNettyWorkerGroupEnable=true
        serverOnewaySemaphoreValue=256 serverPooledByteBufAllocatorEnable=true
        serverSocketBacklog=1024 serverSocketRcvBufSize=0 serverSocketSndBufSize=0
        shutdownWaitTimeSeconds=30 useEpollNativeSelector=false writeBufferHighWaterMark=0
        writeBufferLowWaterMark=0
    """,
    "has no counterpart in Roquet": """
        configBlackList=configBlackList;configStorePath;kvConfigPath rocketmqHome
    """,
}

_ROCKSDB = "a RocksDB store"
_REPLICATION = "replication"
_ACCESS = "access control"

BROKER_REFUSED = {
    "storeType": Refused("default", _ROCKSDB),
    "rocksdbCQDoubleWriteEnable": Refused("false", _ROCKSDB),
    "indexRocksDBEnable": Refused("false", _ROCKSDB),
    "timerRocksDBEnable": Refused("false", _ROCKSDB),
    "transRocksDBEnable": Refused("false", _ROCKSDB),
    "popConsumerKVServiceEnable": Refused("false", _ROCKSDB),
    "popConsumerKVServiceInit": Refused("false", _ROCKSDB),
    "useSingleRocksDBForAllConfigs": Refused("false", _ROCKSDB),
    "combineCQUseRocksdbForLmq": Refused("false", _ROCKSDB),
    "configManagerVersion": Refused("v1", _ROCKSDB),
    "enableDLegerCommitLog": Refused("false", "DLedger mode"),
    "enableControllerMode": Refused("false", "controller mode"),
    "fetchControllerAddrByDnsLookup": Refused("false", "controller mode"),
    "isBrokerContainer": Refused("false", "a broker container"),
    "isInBrokerContainer": Refused("false", "a broker container"),
    "enableSlaveActingMaster": Refused("false", "a slave that acts as master"),
    "enableRemoteEscape": Refused("false", "a slave that acts as master"),
    "inSyncReplicas": Refused("1", _REPLICATION),
    "minInSyncReplicas": Refused("1", _REPLICATION),
    "allAckInSyncStateSet": Refused("false", _REPLICATION),
    "duplicationEnable": Refused("false", _REPLICATION),
    "aclEnable": Refused("false", _ACCESS),
    "authenticationEnabled": Refused("false", _ACCESS),
    "authorizationEnabled": Refused("false", _ACCESS),
    "migrateAuthFromV1Enabled": Refused("false", _ACCESS),
    "useTLS": Refused("false", "TLS"),
    "enableMultiDispatch": Refused("false", "light message queues"),
    "enableLmq": Refused("false", "light message queues"),
    "readOnlyCommitLogStorePaths": Refused("", "a log in several folders"),
    "messageStorePlugIn": Refused("", "store plug-ins"),
    "fetchNamesrvAddrByAddressServer": Refused("false", "an address server (list them in namesrvAddr)"),
    "fetchNameSrvAddrByDnsLookup": Refused("false", "name servers by DNS record (list them in namesrvAddr)"),
}

NAMES_REFUSED = {"enableControllerInNamesrv": Refused("false", "a controller in the name server")}


def _passive(groups: dict[str, str]) -> dict[str, Passive]:
    table: dict[str, Passive] = {}
    for reason, text in groups.items():
        for word in text.split():
            key, equals, default = word.partition("=")
            table[key] = Passive(reason, default, bool(equals))
    return table


ACCEPTED_WITHOUT_EFFECT = _passive(_BROKER_GROUPS)
NAMES_ACCEPTED_WITHOUT_EFFECT = _passive(_NAMES_GROUPS)
