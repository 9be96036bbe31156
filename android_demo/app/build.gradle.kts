plugins {
    // Kotlin is compiled by the Android plugin itself.
    alias(libs.plugins.android.application)
}

android {
    namespace = "dev.unplug.demo"
    compileSdk = 36

    defaultConfig {
        applicationId = "dev.unplug.demo"
        minSdk = 26
        targetSdk = 36
        versionCode = 1
        versionName = "0.1.0"
        testInstrumentationRunner = "androidx.test.runner.AndroidJUnitRunner"
    }

    buildTypes {
        release {
            // Runtimes look up classes of theirs from native code.
            isMinifyEnabled = false
        }
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }

    androidResources {
        // Models are mapped, and are as small as they get.
        noCompress += listOf("tflite", "onnx", "unplug")
    }

    testOptions {
        unitTests {
            isIncludeAndroidResources = true
            all {
                it.systemProperty("unplug.vectors", rootDir.resolve("../tests/vectors").path)
                it.systemProperty("unplug.report", layout.buildDirectory.file("report.json").get().asFile.path)
            }
        }
    }
}

dependencies {
    implementation(project(":core"))
    implementation(libs.litert)
    implementation(libs.litert.gpu)
    implementation(libs.litert.gpu.api)
    implementation(libs.onnxruntime.android)

    // On the JVM the runtime is the one for the JVM: the same classes with natives of its own.
    testImplementation(libs.onnxruntime)
    testImplementation(libs.junit4)
    testImplementation(libs.robolectric)

    androidTestImplementation(libs.androidx.test.runner)
    androidTestImplementation(libs.androidx.test.junit)
}
