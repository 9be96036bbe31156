plugins {
    alias(libs.plugins.kotlin.jvm)
}

kotlin {
    jvmToolchain(17)
    explicitApi()
}

dependencies {
    testImplementation(libs.junit.jupiter)
    testImplementation(libs.onnxruntime)
    testRuntimeOnly(libs.junit.platform)
}

tasks.test {
    useJUnitPlatform()
    systemProperty("unplug.vectors", rootDir.resolve("../tests/vectors").path)
}
