"""The JSON Schemas of this package's files, generated from their dataclasses."""

from unplug.sdk.drawing.device import Pipeline
from unplug.sdk.drawing.inference import DecisionRecord
from unplug.sdk.evidence.assurance import ClassEvaluation, EvaluationReport
from unplug.sdk.evidence.auditing import AuditReport, Certification
from unplug.sdk.evidence.concepts import ErasureAudit
from unplug.sdk.evidence.fleet import ReferenceRecord
from unplug.sdk.learning.data import Planted
from unplug.sdk.releasing import Decided
from unplug.sdk.report import FaceSheet, PluginRecord, Record, ReleaseRecord
from unplug.sdk.searching import Front
from unplug.trust.bundle import GeneratorManifest, Manifest, PackRecord, TrustFile
from unplug.trust.certificates import Absences, Certificate, CertificatePolicy
from unplug.trust.ledger import CommittedList, InclusionProof

SCHEMAS: dict[str, type] = {
    "unplug-absence-1.json": Absences,
    "unplug-audit-1.json": AuditReport,
    "unplug-bundle-2.json": Manifest,
    "unplug-certificate-1.json": Certificate,
    "unplug-certificate-policy-1.json": CertificatePolicy,
    "unplug-certification-1.json": Certification,
    "unplug-checkpoint-1.json": Record,
    "unplug-class-evaluation-1.json": ClassEvaluation,
    "unplug-commitments-1.json": CommittedList,
    "unplug-decided-1.json": Decided,
    "unplug-decision-1.json": DecisionRecord,
    "unplug-erasure-audit-1.json": ErasureAudit,
    "unplug-evaluation-1.json": EvaluationReport,
    "unplug-faces-2.json": FaceSheet,
    "unplug-front-1.json": Front,
    "unplug-generator-bundle-1.json": GeneratorManifest,
    "unplug-ledger-inclusion-1.json": InclusionProof,
    "unplug-pack-1.json": PackRecord,
    "unplug-pipeline-1.json": Pipeline,
    "unplug-planted-1.json": Planted,
    "unplug-plugin-1.json": PluginRecord,
    "unplug-references-1.json": ReferenceRecord,
    "unplug-release-1.json": ReleaseRecord,
    "unplug-trust-1.json": TrustFile,
}
